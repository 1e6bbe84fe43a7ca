package commands

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/packaging/docs"
	"github.com/svcproxy/svcproxy/proxy/cli"
)

// Completion is the command completion of the whole program.
func Completion(e *Env, whole func() cli.Program) cli.Command {
	return cli.Command{
		Name: "completion", Args: "SHELL", Short: "print a completion script for bash, zsh or fish", Values: docs.Shells,
		Long:     `For this shell: source <(svcproxy completion bash). The packages install the scripts.`,
		Examples: []string{"svcproxy completion bash"},
		Run: func(_ context.Context, args []string) error {
			if len(args) != 1 || !slices.Contains(docs.Shells, args[0]) {
				return cli.Errorf(cli.Usage, "", "completion wants one shell of %s, have %s", strings.Join(docs.Shells, ", "),
					cli.Given(args))
			}
			return docs.Completion(e.Out, args[0], whole())
		},
	}
}

// Docs is the hidden command docs, which the build of the packages runs. The pages are
// dated SOURCE_DATE_EPOCH (seconds since 1970), or now.
func Docs(e *Env, whole func() cli.Program) cli.Command {
	return cli.Command{
		Name: "docs", Args: "DIR", Short: "write manual pages, completion scripts and schemas", Hidden: true,
		Run: func(_ context.Context, args []string) error {
			if len(args) != 1 {
				return cli.Errorf(cli.Usage, "", "docs wants one directory, have %s", cli.Given(args))
			}
			date := time.Now()
			if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
				seconds, err := strconv.ParseInt(epoch, 10, 64)
				if err != nil {
					return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
				}
				date = time.Unix(seconds, 0)
			}
			return docs.Write(args[0], whole(), docs.Edition{Version: e.Version, Date: date})
		},
	}
}

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
		Long: `For this shell: source <(svcproxy completion bash). The packages install the scripts.`,
		Run: func(_ context.Context, args []string) error {
			shells := strings.Join(docs.Shells, ", ")
			shell, err := one(args, "shell of "+shells)
			if err != nil {
				return err
			}
			if !slices.Contains(docs.Shells, shell) {
				return cli.Errorf(cli.Usage, "", "no completion for %q: want one of %s", shell, shells)
			}
			return docs.Completion(e.Out, shell, whole())
		},
	}
}

// Docs is the hidden command docs, which the build of the packages runs. The pages are
// dated SOURCE_DATE_EPOCH (seconds since 1970), or now.
func Docs(e *Env, whole func() cli.Program) cli.Command {
	return cli.Command{
		Name: "docs", Args: "DIR", Short: "write manual pages, completion scripts and schemas", Hidden: true,
		Run: func(_ context.Context, args []string) error {
			dir, err := one(args, "folder")
			if err != nil {
				return err
			}
			date := time.Now()
			if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
				seconds, err := strconv.ParseInt(epoch, 10, 64)
				if err != nil {
					return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
				}
				date = time.Unix(seconds, 0)
			}
			return docs.Write(dir, whole(), docs.Edition{Version: e.Version, Date: date})
		},
	}
}

func one(args []string, what string) (string, error) {
	if len(args) != 1 {
		return "", cli.Errorf(cli.Usage, "", "want one %s, have %q", what, args)
	}
	return args[0], nil
}

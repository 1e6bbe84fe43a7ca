// Package docs writes what a package has for people and their tools: manual
// pages, completion scripts and schemas, all from the tables that the program
// itself works with.
package docs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/packaging/completion"
	"github.com/svcproxy/svcproxy/packaging/man"
	"github.com/svcproxy/svcproxy/packaging/schema"
	"github.com/svcproxy/svcproxy/proxy/command"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/exit"
	"github.com/svcproxy/svcproxy/sources/file"
)

// Write writes all of it into dir, which it makes. The same program and edition
// give the same bytes.
func Write(dir string, p command.Program, e man.Edition) error {
	files := map[string][]byte{
		"svcproxy.8":           e.Program(p),
		"svcproxy.toml.5":      e.Config(config.Keys()),
		"services.toml.5":      e.Services(file.Keys()),
		"svcproxy.schema.json": schema.Config(config.Keys(), file.Keys()),
		"services.schema.json": schema.Services(file.Keys()),
	}
	for _, shell := range completion.Shells {
		var b bytes.Buffer
		if err := completion.Write(&b, shell, p); err != nil {
			return err
		}
		files["completion."+shell] = b.Bytes()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("writing documentation: %w", err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return fmt.Errorf("writing documentation: %w", err)
		}
	}
	return nil
}

// Commands are completion, for people, and docs, for who makes packages. A page
// is dated SOURCE_DATE_EPOCH (seconds since 1970), or now.
func Commands(out io.Writer, version string, program func() command.Program) []command.Command {
	one := func(args []string, what string) (string, error) {
		if len(args) != 1 {
			return "", &exit.Error{Code: exit.Usage, Err: fmt.Errorf("want one %s, have %q", what, args)}
		}
		return args[0], nil
	}
	return []command.Command{
		{Name: "completion", Args: "SHELL", Short: "print a completion script for bash, zsh or fish", Values: completion.Shells,
			Run: func(_ context.Context, args []string) error {
				shell, err := one(args, "shell of "+strings.Join(completion.Shells, ", "))
				if err != nil {
					return err
				}
				if !slices.Contains(completion.Shells, shell) {
					return &exit.Error{Code: exit.Usage, Err: fmt.Errorf("no completion for %q: want one of %s", shell, strings.Join(completion.Shells, ", "))}
				}
				return completion.Write(out, shell, program())
			}},
		{Name: "docs", Args: "DIR", Short: "write manual pages, completion scripts and schemas", Hidden: true,
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
				return Write(dir, program(), man.Edition{Version: version, Date: date})
			}},
	}
}

package commands

import (
	"context"
	"fmt"
	"runtime"

	"github.com/svcproxy/svcproxy/proxy/cli"
)

type versionCommand struct {
	*Env
	output
}

// Version is the command version.
func Version(e *Env) cli.Command {
	v := &versionCommand{Env: e}
	return cli.Command{Name: "version", Short: "print the version", Examples: []string{"svcproxy version"}, Flags: v.flag,
		Run: v.run}
}

func (v *versionCommand) run(context.Context, []string) error {
	if err := v.valid(); err != nil {
		return err
	}
	if v.output == "json" {
		return v.encode(map[string]string{"version": v.Version, "go": runtime.Version()})
	}
	_, err := fmt.Fprintln(v.Out, "svcproxy", v.Version)
	return err
}

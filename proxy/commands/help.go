package commands

import (
	"context"

	"github.com/svcproxy/svcproxy/proxy/cli"
)

// Help is the command help. topics are what it explains.
func Help(e *Env, whole func() cli.Program, topics []string) cli.Command {
	return cli.Command{
		Name: "help", Args: "[COMMAND]", Short: "explain a command, or the flags of kube-proxy", Values: topics,
		Examples: []string{"svcproxy help drain", "svcproxy help flags"},
		Run:      func(_ context.Context, args []string) error { return whole().Help(e.Out, args) },
	}
}

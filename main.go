// Command svcproxy makes this node's kernel serve a table of services: see README.md.
//
// This file has the table of commands. Each command is a file of proxy/commands; what
// runs after `svcproxy run` is proxy/daemon.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/svcproxy/svcproxy/kernel/machine"
	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/commands"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// version is set by the linker. A build without it has the version of the module.
var version = ""

func main() {
	_ = machine.CloseOnExec() // without /proc nothing else works either, and says so
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, stop) // a second signal ends the process, also while it reads standard input
	p := program(&commands.Env{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Version: buildVersion()})
	code := cli.Tell(os.Stderr, p.Run(ctx, os.Args[1:], os.Stdout))
	stop()
	os.Exit(code)
}

const (
	about = `svcproxy makes the kernel of this node serve the services of
/etc/svcproxy/services.toml: with IPVS, ipsets, iptables and virtual addresses.`

	flags = `All commands accept the flags of kube-proxy. A flag overrides its key in svcproxy.toml;
svcproxy.toml(5) names both. Flags of kube-proxy that have no effect here are accepted with
a warning, and not listed.`
)

func program(e *commands.Env) cli.Program {
	p := cli.Program{
		Name: "svcproxy", About: about, Flags: e.Flags,
		FlagsShort: "kube-proxy's flags, which all commands accept", FlagsLong: flags, Near: fields.Near,
	}
	whole := func() cli.Program { return p }
	p.Commands = []cli.Command{
		commands.Run(e), // flags without a command mean the first
		commands.Check(e),
		commands.Import(e),
		commands.Plan(e),
		commands.Explain(e),
		commands.Doctor(e),
		commands.Report(e),
		commands.Status(e),
		commands.Top(e),
		commands.Events(e),
		commands.Health(e),
		commands.Reload(e),
		commands.Drain(e),
		commands.Undrain(e),
		commands.Disable(e),
		commands.Enable(e),
		commands.Weight(e),
		commands.Overrides(e),
		commands.Node(e),
		commands.Table(e),
		commands.Announce(e),
		commands.Cleanup(e),
		commands.Version(e),
		commands.Completion(e, whole),
		commands.Docs(e, whole),
		commands.Names(e),
		commands.Purge(e),
	}
	p.Commands = append(p.Commands, commands.Help(e, whole, p.Topics()))
	return p
}

func buildVersion() string {
	if version != "" {
		return version
	}
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		return b.Main.Version
	}
	return "unknown"
}

// Command guest runs commands and Go tests on a kernel that has IPVS and the
// dummy device. It uses this machine's kernel if it has both and we are root.
// Otherwise it boots Debian's kernel in a QEMU machine that sees the host's
// files read-only, under an overlay in memory.
//
// The same static binary is the guest's /init. Only a test that was seen to end
// can pass. A guest that does not boot, panics or falls silent is a failure,
// with the end of its console. See README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usage = `usage:
  guest install [PACKAGE...]           Debian packages that are missing (root)
  guest kernel [flags] [--refresh]     fetch and unpack a kernel into the cache
  guest root [flags]                   make a root with systemd in the cache (root), for --systemd
  guest run [flags] -- COMMAND [ARGS]  run a command there; go test -exec "$PWD/bin/guest run --"
  guest test [flags] PACKAGE...        run the packages' tests in one guest
  guest again -- COMMAND ARGS PACKAGE  run a command that tests a package; at most 2 tests that fail run again, alone
flags of each: guest COMMAND -h`

// Exit codes of our own; any other is the command's.
const (
	exitUsage   = 2
	exitTimeout = 124 // the guest or the command took too long
	exitNoGuest = 125 // no guest, or it ended without the command's exit code
)

// An exitCode is how a command ended when that is all there is to say.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit status %d", int(c)) }

var commands = map[string]func(context.Context, []string) error{
	"install":   install,
	"kernel":    kernelCommand,
	"root":      rootCommand,
	"run":       runCommand,
	"test":      testCommand,
	"again":     againCommand,
	"systemjob": systemJobCommand, // what --systemd runs inside the guest
	"systemend": systemEndCommand, // the same, after a shutdown
	"testsuite": suiteCommand,     // what `guest test` runs inside the guest
}

func main() {
	if os.Getpid() == 1 {
		beInit()
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP)
	err := command(ctx, os.Args[1:])
	stop()
	var code exitCode
	switch {
	case err == nil:
	case errors.As(err, &code):
		os.Exit(int(code))
	case errors.Is(err, context.DeadlineExceeded):
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(exitTimeout)
	default:
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(exitNoGuest)
	}
}

func command(ctx context.Context, args []string) error {
	if len(args) > 0 {
		if c, ok := commands[args[0]]; ok {
			return c(ctx, args[1:])
		}
	}
	fmt.Fprintln(os.Stderr, usage)
	return exitCode(exitUsage)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// kernelHasIPVS reports whether this machine's kernel will do.
func kernelHasIPVS() bool {
	for _, m := range []string{"ip_vs", "dummy"} {
		if _, err := os.Stat("/sys/module/" + m); err != nil && exec.Command("modprobe", "-q", m).Run() != nil {
			return false
		}
	}
	return true
}

// runNative gives the command network and mount namespaces of its own on this
// kernel. Its files are the host's: nothing holds its writes back here.
func (r *runner) runNative(ctx context.Context, args []string) (int, error) {
	out, err := os.MkdirTemp("", "guest-out-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(out)
	if limit := r.machine.Limit; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	ended := enterNamespaces(ctx, args, environment(out))
	if err := carry(out, r.fetches); err != nil {
		return 0, err
	}
	if ctx.Err() != nil {
		return 0, fmt.Errorf("%s did not end in time: %w", args[0], ctx.Err())
	}
	var exit *exec.ExitError
	if !errors.As(ended, &exit) {
		return 0, ended
	}
	if status := exit.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return exit.ExitCode(), nil
}

func enterNamespaces(ctx context.Context, args, env []string) error {
	const enter = `ip link set lo up && mount -t sysfs sysfs /sys && mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec "$@"`
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", enter, "guest"}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // a Go test shows its goroutines
	cmd.WaitDelay = 10 * time.Second
	return cmd.Run()
}

package iptables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
)

// timeout limits one run of a tool, which hangs if it takes longer. iptables-restore takes 1.5 to
// 10 ms for the rules of mode ipvs. It takes 1.3 s for those of 5,000 services in mode iptables, and
// more than 15 s in an emulated guest on a busy machine. kube-proxy has no limit.
const timeout = time.Minute

// lockWait is how many seconds iptables-restore waits while another program holds
// /run/xtables.lock. It is less than timeout, so that the tool can report the lock itself.
const lockWait = 5

// Run runs argv with stdin as standard input and returns its standard output. The error is an
// *ExitError if the tool failed, and wraps exec.ErrNotFound if it is not installed.
type Run func(ctx context.Context, stdin string, argv ...string) (stdout string, err error)

// Start starts what a Run runs, and returns a function that waits for its end. It belongs to the network
// namespace of the thread that calls Start, whichever thread waits.
type Start func(ctx context.Context, stdin string, argv ...string) (wait Wait)

// Wait returns what Run would.
type Wait func() (stdout string, err error)

// Find returns the path of a tool, such as iptables-save. The error is an exec.ErrNotFound if the
// tool is not installed.
type Find func(name string) (path string, err error)

// ExitError is the failure of a tool that ran.
type ExitError struct {
	Argv   []string
	Code   int
	Stderr string
}

// Error returns the command, its exit status and its standard error in one line.
func (e *ExitError) Error() string {
	var said []string
	for line := range strings.Lines(e.Stderr) {
		line = strings.TrimSuffix(strings.TrimSpace(line), ":")
		if line != "" && !strings.HasPrefix(line, "Try `") && !strings.HasPrefix(line, "#") {
			said = append(said, line)
		}
	}
	return fmt.Sprintf("%s: exit status %d: %s", strings.Join(e.Argv, " "), e.Code, strings.Join(said, ": "))
}

// lockHeld reports whether the tool gave up because another program held the lock of the legacy back end.
func (e *ExitError) lockHeld() bool {
	return strings.Contains(e.Stderr, "holding the xtables lock") && badLine().FindString(e.Stderr) == ""
}

// find searches PATH, then the folders of system tools. The PATH of a user may lack these.
func find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", err
}

// Found finds all tools now and returns a Find that gives these paths ever after. It is for a
// process that goes on as another user. That user's PATH may lead to tools of the same name with
// the other back end, whose tables are empty.
func Found() Find {
	paths := make(map[string]string)
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		for _, backend := range []string{"", "-legacy", "-nft"} {
			for _, suffix := range []string{"", "-save", "-restore"} {
				tool := f.Tool() + backend + suffix
				if path, err := find(tool); err == nil {
					paths[tool] = path
				}
			}
		}
	}
	return func(name string) (string, error) {
		if path, ok := paths[name]; ok {
			return path, nil
		}
		return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
	}
}

// run is a Run.
func (f Find) run(ctx context.Context, stdin string, argv ...string) (string, error) {
	return f.start(ctx, stdin, argv...)()
}

// start is a Start. It finds the tool each time, because a package upgrade may have moved it.
func (f Find) start(ctx context.Context, stdin string, argv ...string) Wait {
	path, err := f(argv[0])
	if err != nil {
		return func() (string, error) { return "", err }
	}
	wait := startAt(ctx, path, stdin, argv)
	return func() (string, error) {
		out, err := wait()
		if errors.Is(err, fs.ErrPermission) {
			return "", &kernel.MissingError{
				What: fmt.Sprintf("user %d may not run %s", os.Geteuid(), path),
				Hint: "start PATH with a folder in which that user finds the same iptables",
			}
		}
		return out, err
	}
}

// startAt starts the tool at a path.
func startAt(ctx context.Context, path, stdin string, argv []string) Wait {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	// A child of the tool, such as modprobe, may keep the pipes open.
	cmd.WaitDelay = time.Second
	err := cmd.Start()
	if err == nil {
		started.add(cmd.Process.Pid)
	}
	return func() (string, error) {
		defer cancel()
		if err == nil {
			err = cmd.Wait()
		}
		switch exit := (*exec.ExitError)(nil); {
		case ctx.Err() != nil:
			return "", fmt.Errorf("%s: ended after no answer: %w", strings.Join(argv, " "), context.Cause(ctx))
		case errors.As(err, &exit):
			return "", &ExitError{Argv: argv, Code: exit.ExitCode(), Stderr: stderr.String()}
		case err != nil:
			return "", fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
		}
		return stdout.String(), nil
	}
}

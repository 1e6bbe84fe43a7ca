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

// timeout bounds one run of a tool. iptables-restore takes 1.5 to 10 ms, 75 in
// an emulated guest; what lasts this long waits for something that will not come.
// It is less than the 20 s after which the loop would be taken for hung, and
// svcproxy ended (see proxy/daemon): the log is to say which tool it was.
const timeout = 15 * time.Second

// lockWait is how many seconds iptables-restore waits for another program's
// hold on /run/xtables.lock: less than timeout, so that it can say so itself,
// and twice this, for both families are written, is less than those 20 s.
const lockWait = 5

// Run runs argv with stdin as its standard input and gives its standard output.
// A tool that is not installed is an exec.ErrNotFound, one that failed an
// *ExitError.
type Run func(ctx context.Context, stdin string, argv ...string) (stdout string, err error)

// ExitError is a tool that ran and failed.
type ExitError struct {
	Argv   []string
	Code   int
	Stderr string
}

// Error is the command, its exit status and what it said, in one line.
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

// run is Run for the real tools, each looked for when it is run.
func run(ctx context.Context, stdin string, argv ...string) (string, error) {
	path, err := find(argv[0])
	if err != nil {
		return "", err
	}
	return runAt(ctx, path, stdin, argv)
}

// Found is Run for the tools that PATH leads to now. It is for a process that goes
// on as another user, who may not look everywhere: PATH would lead past a tool to
// one of the same name, of another back end, whose tables are empty.
func Found() Run {
	paths := make(map[string]string)
	for _, name := range toolNames {
		for _, does := range []string{"", "-save", "-restore"} {
			if path, err := find(name + does); err == nil {
				paths[name+does] = path
			}
		}
	}
	return func(ctx context.Context, stdin string, argv ...string) (string, error) {
		path, ok := paths[argv[0]]
		if !ok {
			return "", &exec.Error{Name: argv[0], Err: exec.ErrNotFound}
		}
		out, err := runAt(ctx, path, stdin, argv)
		if errors.Is(err, fs.ErrPermission) {
			return "", &kernel.MissingError{
				What: fmt.Sprintf("user %d may not run %s", os.Geteuid(), path),
				Hint: "have PATH begin with a folder where that user finds the same iptables",
			}
		}
		return out, err
	}
}

// runAt runs the tool that is at a path.
func runAt(ctx context.Context, path, stdin string, argv []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	// A child of the tool (modprobe) must not hold the pipes open for ever.
	cmd.WaitDelay = time.Second
	err := cmd.Run()
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

// find looks for a tool in PATH and where root's PATH would have it.
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

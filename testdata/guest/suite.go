package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// A suite is a list of test binaries to run one after another in one guest.
type suite struct {
	Tests          []packageTest
	Flags          []string // for each binary
	Timeout, Grace time.Duration
}

// A packageTest is one package's test binary, or its verdict when that is known
// without running it.
type packageTest struct {
	Package, Dir, Binary, Verdict string
}

func (s suite) write(path string) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

// suiteCommand runs a suite here: inside the guest, or in native namespaces.
func suiteCommand(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("testsuite wants the file that guest test wrote")
	}
	b, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var s suite
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	if !s.run(ctx, os.Stdout) {
		fmt.Println("FAIL")
		return exitCode(1)
	}
	return nil
}

// run prints each package's output as it comes and then its verdict. It goes on
// past failures and says whether there was none.
func (s suite) run(ctx context.Context, out io.Writer) bool {
	ok, idle := true, 0
	for _, t := range s.Tests {
		verdict := t.Verdict
		if verdict == "" {
			seen := &watcher{out: out}
			start := time.Now()
			err := s.runBinary(ctx, t, seen)
			verdict = judge(t.Package, time.Since(start), err, seen.ranNone, out)
			if err == nil && seen.ranNone {
				idle++
			}
		}
		fmt.Fprintln(out, verdict)
		ok = ok && !strings.HasPrefix(verdict, "FAIL")
	}
	if idle > 0 {
		fmt.Fprintf(out, "guest: %d of %d packages ran no test\n", idle, len(s.Tests))
	}
	return ok
}

// judge words a package's end as go test does.
func judge(pkg string, took time.Duration, err error, ranNone bool, out io.Writer) string {
	seconds := fmt.Sprintf("%.3fs", took.Seconds())
	if err != nil {
		ended, ok := err.(*exec.ExitError) // not wrapped: it ended by itself
		if !ok || ended.ExitCode() != 1 && ended.ExitCode() != 2 {
			fmt.Fprintln(out, "guest:", err) // 1 and 2 are a Go test's own ways to fail
		}
		return "FAIL\t" + pkg + "\t" + seconds
	}
	verdict := "ok  \t" + pkg + "\t" + seconds
	if ranNone {
		verdict += " [no tests to run]"
	}
	return verdict
}

// runBinary runs one test binary in its package's folder. It has its own time
// limit; one that does not keep it is made to show its goroutines, then killed
// with all it started.
func (s suite) runBinary(ctx context.Context, t packageTest, out io.Writer) error {
	limit := s.Timeout + s.Grace
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("test hung: no end within %v", limit))
	defer cancel()
	cmd := exec.CommandContext(ctx, t.Binary, s.Flags...)
	cmd.Dir = t.Dir
	cmd.Env = append(os.Environ(), "PWD="+t.Dir)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGQUIT) }
	cmd.WaitDelay = s.Grace
	if err := cmd.Start(); err != nil {
		return err
	}
	err := cmd.Wait()
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left behind is not the next one's
	if ctx.Err() != nil {
		return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		return errors.New("test left processes behind that hold its output")
	}
	return err
}

// A watcher passes a test's output on and notices when no test ran.
type watcher struct {
	out     io.Writer
	last    []byte // the end of what went by, for a warning cut in two
	ranNone bool
}

var noTests = []byte("testing: warning: no tests to run\n")

func (w *watcher) Write(p []byte) (int, error) {
	w.last = append(w.last, p...)
	w.ranNone = w.ranNone || bytes.Contains(w.last, noTests)
	w.last = bytes.Clone(w.last[max(0, len(w.last)-len(noTests)):])
	return w.out.Write(p)
}

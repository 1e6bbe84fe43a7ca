package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A suite is a list of test binaries to run one after another in one guest.
type suite struct {
	Tests          []packageTest
	Flags          []string // for each binary
	Timeout, Grace time.Duration
	Verbose        bool // show all output as it comes
	NoSkip         bool // a skipped test is a failed one
}

// A packageTest is one package's test binary, or its verdict when that is known
// without running it.
type packageTest struct {
	Package, Dir, Binary, Verdict string
}

// Files a suite leaves for the host, which reads them when the guest dies.
const (
	runningFile = "running" // the package whose turn it is
	outputFile  = "output"  // what it has said so far
)

var errNoRecord = errors.New("cannot record a test's output")

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
	ok, err := s.run(ctx, os.Stdout, os.Getenv("SVCPROXY_GUEST_OUT"))
	if err == nil && !ok {
		fmt.Println("FAIL")
		return exitCode(1)
	}
	return err
}

// run prints each package's verdict, before it the output of one that failed,
// and at the end what did not run. It goes on past failures and says whether
// there was none. Files for the host go to dir.
func (s suite) run(ctx context.Context, out io.Writer, dir string) (bool, error) {
	ok, idle, skipped := true, 0, []string(nil)
	for _, t := range s.Tests {
		verdict := t.Verdict
		if verdict == "" {
			start := time.Now()
			output, err := s.runRecorded(ctx, t, out, dir)
			if errors.Is(err, errNoRecord) {
				return false, err
			}
			d := digest(output)
			verdict = s.judge(t.Package, time.Since(start), d, err)
			if strings.HasPrefix(verdict, "FAIL") && !s.Verbose {
				io.WriteString(out, d.text(s.NoSkip))
			}
			explain(out, err)
			for _, name := range d.skipped {
				skipped = append(skipped, t.Package+" "+name)
			}
			if d.ranNone && err == nil {
				idle++
			}
		}
		fmt.Fprintln(out, verdict)
		ok = ok && !strings.HasPrefix(verdict, "FAIL")
	}
	if idle > 0 {
		fmt.Fprintf(out, "guest: packages that ran no test: %d of %d\n", idle, len(s.Tests))
	}
	if len(skipped) > 0 {
		fmt.Fprintf(out, "guest: tests skipped: %d\n\t%s\n", len(skipped), strings.Join(skipped, "\n\t"))
	}
	return ok, nil
}

// judge words a package's end as go test does.
func (s suite) judge(pkg string, took time.Duration, d digested, err error) string {
	word, note := "ok  ", ""
	if err != nil || s.NoSkip && len(d.skipped) > 0 {
		word = "FAIL"
	} else if d.ranNone {
		note = " [no tests to run]"
	}
	return fmt.Sprintf("%s\t%s\t%.3fs%s", word, pkg, took.Seconds(), note)
}

// explain says how a binary ended, unless in a Go test's own ways to fail.
func explain(out io.Writer, err error) {
	ended, ok := err.(*exec.ExitError) // not wrapped: it ended by itself
	if err == nil || ok && (ended.ExitCode() == 1 || ended.ExitCode() == 2) {
		return
	}
	fmt.Fprintln(out, "guest:", err)
}

// runRecorded runs a binary and returns its output, kept in a file below dir so
// that it outlives the guest.
func (s suite) runRecorded(ctx context.Context, t packageTest, out io.Writer, dir string) (string, error) {
	if err := os.WriteFile(filepath.Join(dir, runningFile), []byte(t.Package), 0o644); err != nil {
		return "", fmt.Errorf("%w: %w", errNoRecord, err)
	}
	path := filepath.Join(dir, outputFile)
	record, err := os.Create(path)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoRecord, err)
	}
	defer record.Close()
	var sink io.Writer = record
	if s.Verbose {
		sink = io.MultiWriter(out, record)
	}
	ended := s.runBinary(ctx, t, sink)
	output, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoRecord, err)
	}
	if len(output) > 0 && output[len(output)-1] != '\n' { // killed in the middle of a line
		if _, err := io.WriteString(sink, "\n"); err != nil {
			return "", fmt.Errorf("%w: %w", errNoRecord, err)
		}
		output = append(output, '\n')
	}
	return string(output), ended
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

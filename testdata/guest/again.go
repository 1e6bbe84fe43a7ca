package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// mostAgain is how many failed tests of one command are tried again. More than that is no accident.
const mostAgain = 2

// againCommand runs a command that tests one package, its last argument. If at most mostAgain tests fail, it runs them
// once more, alone: under load a client may lose its patience. The output names them and keeps what the first attempt
// printed.
func againCommand(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) < 2 {
		fmt.Fprintln(os.Stderr, usage)
		return exitCode(exitUsage)
	}
	return again(ctx, os.Stdout, args)
}

func again(ctx context.Context, out io.Writer, args []string) error {
	failed, err := attempt(ctx, out, args)
	if err == nil || len(failed) == 0 || len(failed) > mostAgain || ctx.Err() != nil {
		return err
	}
	fmt.Fprintf(out, "guest again: failed once, and run again alone: %s\n", strings.Join(failed, " "))
	only := "-run=^(" + strings.Join(failed, "|") + ")$"
	_, err = attempt(ctx, out, slices.Insert(slices.Clone(args), len(args)-1, only))
	return err
}

var failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// attempt runs a command and returns the tests that failed. None is returned where a failure is not a test's: a build,
// a panic, a time limit or a guest that ended.
func attempt(ctx context.Context, out io.Writer, args []string) (failed []string, err error) {
	var printed bytes.Buffer
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stdout = io.MultiWriter(out, &printed)
	cmd.Stderr = cmd.Stdout
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = exitCode(max(exit.ExitCode(), 1))
	}
	if bytes.Contains(printed.Bytes(), []byte("\npanic: ")) || bytes.Contains(printed.Bytes(), []byte("[guest ended]")) {
		return nil, err
	}
	for _, m := range failedTest.FindAllSubmatch(printed.Bytes(), -1) {
		if name := string(m[1]); !slices.Contains(failed, name) {
			failed = append(failed, name)
		}
	}
	return failed, err
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"
)

// A gotest is one `guest test`: what to build and how to run it.
type gotest struct {
	runner  *runner
	tags    string
	arch    string        // the target's; "" is ours
	timeout time.Duration // for each package
	grace   time.Duration // beyond it, before SIGQUIT and again before SIGKILL
	verbose bool
	noSkip  bool
	flags   []string // for the test binaries
}

// testCommand is `go test` with one guest for all packages.
func testCommand(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("guest test", flag.ExitOnError)
	t := gotest{runner: runnerFlags(fs)}
	fs.StringVar(&t.tags, "tags", "", "build tags")
	fs.DurationVar(&t.timeout, "timeout", 3*time.Minute, "time limit for each package")
	fs.DurationVar(&t.grace, "grace", 10*time.Second, "time beyond -timeout before SIGQUIT, and then before SIGKILL")
	fs.BoolVar(&t.verbose, "v", false, "show all output as it comes")
	fs.BoolVar(&t.noSkip, "noskip", false, "a skipped test is a failed one")
	for _, name := range []string{"run", "skip", "benchtime", "count", "cpu"} {
		fs.Func(name, "as go test has it", func(v string) error { t.flags = append(t.flags, "-test."+name+"="+v); return nil })
	}
	for _, name := range []string{"short", "failfast", "benchmem"} {
		fs.BoolFunc(name, "as go test has it", func(v string) error { t.flags = append(t.flags, "-test."+name+"="+v); return nil })
	}
	fs.Func("bench", "as go test has it; shows all output", func(v string) error {
		t.verbose, t.flags = true, append(t.flags, "-test.bench="+v)
		return nil
	})
	fs.Parse(args)
	t.arch = t.runner.target.Arch
	packages := fs.Args()
	if len(packages) == 0 {
		packages = []string{"."}
	}
	return t.run(ctx, packages)
}

func (t gotest) run(ctx context.Context, packages []string) error {
	dir, err := os.MkdirTemp("", "guest-test-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := t.build(ctx, dir, packages)
	if err != nil {
		return err
	}
	plan := filepath.Join(dir, "suite.json")
	if err := s.write(plan); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if t.runner.machine.Limit == 0 {
		each := t.timeout + 3*t.grace
		t.runner.machine.Limit = t.runner.machine.BootLimit + time.Duration(len(s.Tests))*each + time.Minute
	}
	t.runner.binds = append(t.runner.binds, dir)
	t.runner.fetches = append(t.runner.fetches, fetch{runningFile, filepath.Join(dir, runningFile)}, fetch{outputFile, filepath.Join(dir, outputFile)})
	err = t.runner.run(ctx, []string{self, "testsuite", plan})
	var code exitCode
	if err != nil && !errors.As(err, &code) {
		s.mourn(os.Stdout, dir)
	}
	return err
}

// mourn reports for a guest that died: the output of the package that was
// running, and that it and all later packages failed.
func (s suite) mourn(out io.Writer, dir string) {
	if output, err := os.ReadFile(filepath.Join(dir, outputFile)); err == nil && !s.Verbose {
		io.WriteString(out, digest(string(output)).text(true))
	}
	running, _ := os.ReadFile(filepath.Join(dir, runningFile)) // none: it died before the first
	i := slices.IndexFunc(s.Tests, func(t packageTest) bool { return t.Package == string(running) })
	for _, t := range s.Tests[max(i, 0):] {
		switch {
		case t.Verdict != "":
			fmt.Fprintln(out, t.Verdict)
		case t.Package == string(running):
			fmt.Fprintf(out, "FAIL\t%s [guest ended]\n", t.Package)
		default:
			fmt.Fprintf(out, "FAIL\t%s [not run]\n", t.Package)
		}
	}
	fmt.Fprintln(out, "FAIL")
}

// build lists the packages and compiles a test binary of each below dir.
func (t gotest) build(ctx context.Context, dir string, packages []string) (suite, error) {
	s := suite{
		Flags:   append(t.flags, "-test.v", "-test.paniconexit0", "-test.timeout="+t.timeout.String()),
		Timeout: t.timeout, Grace: t.grace, Verbose: t.verbose, NoSkip: t.noSkip,
	}
	list := goTool(ctx, append([]string{"list", "-tags=" + t.tags, "-json=Dir,ImportPath,TestGoFiles,XTestGoFiles"}, packages...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return s, fmt.Errorf("go list: %w", err)
	}
	if s.Tests, err = parseList(out); err != nil {
		return s, fmt.Errorf("go list: %w", err)
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, runtime.NumCPU())
	for i := range s.Tests {
		if s.Tests[i].Verdict != "" {
			continue
		}
		s.Tests[i].Binary = filepath.Join(dir, strconv.Itoa(i)+".test")
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := t.compile(ctx, s.Tests[i]); err != nil {
				fmt.Fprint(os.Stderr, err)
				s.Tests[i].Verdict = fmt.Sprintf("FAIL\t%s [build failed]", s.Tests[i].Package)
			}
		})
	}
	wg.Wait()
	return s, ctx.Err()
}

func (t gotest) compile(ctx context.Context, p packageTest) error {
	cmd := goTool(ctx, "test", "-c", "-tags="+t.tags, "-o", p.Binary, p.Package)
	cmd.Env = append(cmd.Env, "GOARCH="+t.arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s", out) // begins with "# package", as go test shows it
	}
	return nil
}

// goTool is the go command, also where it is installed but not on PATH.
func goTool(ctx context.Context, args ...string) *exec.Cmd {
	path, err := exec.LookPath("go")
	if err != nil {
		path = "/usr/local/go/bin/go"
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return cmd
}

// parseList reads `go list -json`; a package with no test files has its verdict.
func parseList(out []byte) ([]packageTest, error) {
	var tests []packageTest
	d := json.NewDecoder(bytes.NewReader(out))
	for {
		var p struct {
			Dir, ImportPath           string
			TestGoFiles, XTestGoFiles []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return tests, nil
		} else if err != nil {
			return nil, err
		}
		t := packageTest{Package: p.ImportPath, Dir: p.Dir}
		if len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
			t.Verdict = fmt.Sprintf("?   \t%s\t[no test files]", p.ImportPath)
		}
		tests = append(tests, t)
	}
}

package appliance

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// Tests run in the installed unit with a drop-in that names the test binary and
// the network namespace of the run. That one is systemd's to make, since the
// sandbox forbids it. How large tables are is nothing to the sandbox: the tests
// are short. Units share the runtime directory: one that ends must not remove it
// under another.
const (
	shippedUnit = "/lib/systemd/system/svcproxy.service"
	testUnit    = "/run/systemd/system/svcproxy-test@.service"
	testFolder  = "/srv/svcproxy-test" // the sandbox hides /tmp and /root
	testDropIn  = `[Service]
Type=oneshot
TimeoutStartSec=10min
WatchdogSec=0
Restart=no
ExecStartPre=
ExecStart=
ExecStart=` + testFolder + `/%i/package/` + testBinary + ` -test.v -test.short -test.timeout=9m -test.run=${TESTS}
ExecReload=
EnvironmentFile=` + testFolder + `/%i/environment
Environment=SVCPROXY_GUEST=1 SVCPROXY_NAMESPACE=given SVCPROXY_RANDOM_TABLES=5
WorkingDirectory=` + testFolder + `/%i/package
StandardOutput=truncate:` + testFolder + `/%i/output
StandardError=inherit
PrivateNetwork=yes
RuntimeDirectoryPreserve=yes
`
	testBinary = "package.test"
)

// testedBySandbox lists the packages whose tests make the kernel do svcproxy's work:
// random, and all below kernel but for those that speak with no kernel (fake, kerneltest,
// packet, plan) and statefile, whose tests need two users.
func testedBySandbox() ([]string, error) {
	tests, err := filepath.Glob("../../kernel/*/*_test.go")
	packages := []string{"../random"}
	for _, t := range tests {
		without := []string{"fake", "kerneltest", "packet", "plan", "statefile"}
		if dir := filepath.Dir(t); !slices.Contains(without, filepath.Base(dir)) {
			packages = append(packages, dir)
		}
	}
	slices.Sort(packages)
	return slices.Compact(packages), err
}

// compileTests makes a folder of test binaries, each in a copy of its package's
// own folder.
func compileTests(dir string) error {
	packages, err := testedBySandbox()
	if err != nil {
		return err
	}
	for _, pkg := range packages {
		to := filepath.Join(dir, filepath.Base(pkg))
		if err := os.CopyFS(to, os.DirFS(pkg)); err != nil {
			return err
		}
		cmd := exec.Command("go", "test", "-c", "-o", filepath.Join(to, testBinary), pkg)
		cmd.Env = forNode()
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("building the tests of %s: %w: %s", pkg, err, out)
		}
	}
	return nil
}

func TestSandboxScriptHasEveryPackage(t *testing.T) {
	packages, err := testedBySandbox()
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("script/sandbox.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range packages {
		if name := filepath.Base(pkg); !regexp.MustCompile(`(?m)^sandbox ` + name + `( |$)`).Match(script) {
			t.Errorf("script/sandbox.txtar does not run the tests of %s", name)
		}
	}
}

// sandbox is the units of a script.
type sandbox struct {
	mu    sync.Mutex
	units int // so far
}

// do runs tests of a package, all by default: sandbox PACKAGE [TEST...]. None may
// skip. With "!" something must fail.
func (s *sandbox) do(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: [!] sandbox PACKAGE [TEST...]")
	}
	if s.units == 0 {
		ts.Check(s.open(filepath.Join(ts.Getenv("PACKAGES"), "tests")))
	}
	began, before := time.Now(), s.units
	o, err := s.test(args[0], args[1:])
	switch {
	case !neg:
		ts.Check(err)
	case err == nil:
		ts.Fatalf("the tests of %s pass", args[0])
	default:
		ts.Logf("as it must: %v", err)
		return
	}
	ts.Logf("%s: %d tests passed, %d units, %.1f s", args[0], len(o.passed), s.units-before, time.Since(began).Seconds())
}

// test runs tests of a package in one unit, all if none are named, then those that
// found its namespace taken in one each.
func (s *sandbox) test(pkg string, tests []string) (outcome, error) {
	patterns := []string{"."}
	if len(tests) > 0 {
		patterns = nil
	}
	for _, test := range tests {
		patterns = append(patterns, only(test))
	}
	o, err := s.run(pkg, strings.Join(patterns, "|"))
	if err != nil {
		return o, err
	}
	others, err := s.runEach(pkg, o.takeDisplaced())
	if err != nil {
		return o, err
	}
	o.add(others)
	for _, skipped := range o.skipped {
		return o, fmt.Errorf("%s: %s skipped: %s", pkg, skipped.test, skipped.why)
	}
	for _, test := range tests {
		if !slices.Contains(o.passed, test) {
			return o, fmt.Errorf("%s: %s did not run", pkg, test)
		}
	}
	return o, nil
}

// open makes the unit of the installed one.
func (s *sandbox) open(tests string) error {
	unit, err := os.ReadFile(shippedUnit)
	return errors.Join(err,
		os.CopyFS(testFolder, os.DirFS(tests)),
		os.WriteFile(testUnit, unit, 0o644),
		os.Mkdir(testUnit+".d", 0o755),
		os.WriteFile(testUnit+".d/test.conf", []byte(testDropIn), 0o644),
		exec.Command("systemctl", "daemon-reload").Run(),
	)
}

// atOnce is how many units there are at a time: while one waits for the kernel
// to take its namespace down, another has the processor.
const atOnce = 2

// runEach runs tests by themselves. One that does not even start is an error.
func (s *sandbox) runEach(pkg string, tests []string) (all outcome, err error) {
	var mu sync.Mutex
	var errs []error
	var going sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, test := range tests {
		slots <- struct{}{}
		going.Go(func() {
			defer func() { <-slots }()
			o, err := s.run(pkg, only(test))
			if err == nil && !slices.Contains(o.passed, test) && len(o.skipped) == 0 {
				err = fmt.Errorf("%s: %s did not run by itself", pkg, test)
			}
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
			all.add(o)
		})
	}
	going.Wait()
	return all, errors.Join(errs...)
}

// only is the pattern of one test: parent/name is ^parent$/^name$.
func only(test string) string {
	names := strings.Split(test, "/")
	for i, name := range names {
		names[i] = "^" + regexp.QuoteMeta(name) + "$"
	}
	return strings.Join(names, "/")
}

// run runs one unit and waits for its end.
func (s *sandbox) run(pkg, pattern string) (outcome, error) {
	s.mu.Lock()
	s.units++
	name := strconv.Itoa(s.units)
	s.mu.Unlock()
	dir := filepath.Join(testFolder, name)
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(pattern)
	if err := errors.Join(
		os.Mkdir(dir, 0o755),
		os.Symlink(filepath.Join("..", pkg), filepath.Join(dir, "package")),
		os.WriteFile(filepath.Join(dir, "environment"), []byte("TESTS=\""+quoted+"\"\n"), 0o644),
	); err != nil {
		return outcome{}, err
	}
	said, err := exec.Command("systemctl", "start", "svcproxy-test@"+name).CombinedOutput()
	output, rerr := os.ReadFile(filepath.Join(dir, "output"))
	if err != nil {
		return outcome{}, fmt.Errorf("%s %s: %w: %s%s", pkg, pattern, err, said, output)
	}
	return parseOutcome(string(output)), rerr
}

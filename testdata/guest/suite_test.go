package main

import (
	"strings"
	"testing"
	"time"
)

// runFixtures runs fixture packages as a suite on this kernel.
func runFixtures(t *testing.T, s suite, names ...string) (string, bool) {
	t.Helper()
	g := gotest{timeout: s.Timeout, grace: s.Grace, verbose: s.Verbose, noSkip: s.NoSkip}
	var packages []string
	for _, n := range names {
		packages = append(packages, fixtures+n)
	}
	built, err := g.build(t.Context(), t.TempDir(), packages)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	ok, err := built.run(t.Context(), &out, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), ok
}

func TestSuiteGoesOnPastFailures(t *testing.T) {
	t.Parallel()
	s := suite{Timeout: 2 * time.Second, Grace: 2 * time.Second}
	out, ok := runFixtures(t, s, "broken", "mute", "pass")
	if ok {
		t.Error("said to be ok")
	}
	wantLines(t, out, `^FAIL\t.*/broken \[build failed\]$`,
		"^and then$", "^guest: test hung: no end within 4s .*killed", `^FAIL\t.*/mute\t`, `^ok  \t.*/pass\t\d+\.\d{3}s$`)
}

func TestSuiteShowsWhatDidNotRun(t *testing.T) {
	t.Parallel()
	s := suite{Timeout: time.Minute, Grace: time.Second}
	out, ok := runFixtures(t, s, "pass", "idle", "skip")
	if !ok {
		t.Error("said to have failed")
	}
	wantLines(t, out, `^ok  \t.*/idle\t\d+\.\d{3}s \[no tests to run\]$`, "^guest: packages that ran no test: 1 of 3$",
		`^ok  \t.*/skip\t`, "^guest: tests skipped: 1\n\t.*/skip TestSkip$")

	s.NoSkip = true
	out, ok = runFixtures(t, s, "skip")
	if ok {
		t.Error("a skip passed under NoSkip")
	}
	wantLines(t, out, "skip_test.go:5: this test skips on purpose", "^--- SKIP: TestSkip", `^FAIL\t.*/skip\t`)
}

func TestDigestKeepsWhatFailedOrDidNotEnd(t *testing.T) {
	const output = `loose line
=== RUN   TestA
    a_test.go:1: a passes
--- PASS: TestA (0.00s)
=== RUN   TestB
=== RUN   TestB/good
    b_test.go:1: good passes
=== RUN   TestB/bad
    b_test.go:2: bad fails
=== NAME  TestB
    b_test.go:3: parent's own
--- FAIL: TestB (0.00s)
    --- PASS: TestB/good (0.00s)
    --- FAIL: TestB/bad (0.00s)
=== RUN   TestC
    c_test.go:1: c skips
--- SKIP: TestC (0.00s)
=== RUN   TestD
d prints and dies
`
	const want = `loose line
    b_test.go:2: bad fails
    b_test.go:3: parent's own
--- FAIL: TestB (0.00s)
    --- FAIL: TestB/bad (0.00s)
d prints and dies
`
	d := digest(output)
	if got := d.text(false); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if got := d.text(true); !strings.Contains(got, "c skips") {
		t.Errorf("skipped test is missing from:\n%s", got)
	}
	if len(d.skipped) != 1 || d.skipped[0] != "TestC" {
		t.Errorf("skipped %q", d.skipped)
	}
}

package appliance

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

// An outcome is what a test binary said under -test.v.
type outcome struct {
	passed  []string
	skipped []skip
}

type skip struct{ test, why string }

var (
	// turn says whose the lines after it are: "=== RUN   TestA/one".
	turn = regexp.MustCompile(`^=== [A-Z]+ +(\S+)$`)
	// reason is the line of t.Skip, after the place.
	reason = regexp.MustCompile(`^ +\S+\.go:\d+: (.*)$`)
	// verdict of a subtest comes indented when its parent has ended.
	verdict = regexp.MustCompile(`^ *--- (PASS|SKIP): (\S+) `)
)

func parseOutcome(output string) (o outcome) {
	current, last := "", map[string]string{}
	for line := range strings.Lines(output) {
		line = strings.TrimSuffix(line, "\n")
		if m := turn.FindStringSubmatch(line); m != nil {
			current = m[1]
		} else if m := reason.FindStringSubmatch(line); m != nil {
			last[current] = m[1]
		} else if m := verdict.FindStringSubmatch(line); m != nil && m[1] == "PASS" {
			o.passed = append(o.passed, m[2])
		} else if m != nil {
			o.skipped = append(o.skipped, skip{m[2], last[m[2]]})
		}
	}
	return o
}

// takeDisplaced removes and returns the tests that skipped because another had
// the namespace.
func (o *outcome) takeDisplaced() (tests []string) {
	o.skipped = slices.DeleteFunc(o.skipped, func(s skip) bool {
		displaced := s.why == kerneltest.NamespaceTaken
		if displaced {
			tests = append(tests, s.test)
		}
		return displaced
	})
	return tests
}

// add joins what was run separately; a parent test runs with each of its own.
func (o *outcome) add(other outcome) {
	o.passed = append(o.passed, other.passed...)
	slices.Sort(o.passed)
	o.passed = slices.Compact(o.passed)
	o.skipped = append(o.skipped, other.skipped...)
}

func TestOutcome(t *testing.T) {
	o := parseOutcome(`=== RUN   TestA
=== RUN   TestA/one
    sets_test.go:20: ` + kerneltest.NamespaceTaken + `
=== RUN   TestA/two
    sets_test.go:31: 7 entries
=== NAME  TestA
    sets_test.go:40: done
--- PASS: TestA (0.01s)
    --- SKIP: TestA/one (0.00s)
    --- PASS: TestA/two (0.00s)
=== RUN   TestB
    b_test.go:3: no reason: none
--- SKIP: TestB (0.00s)
PASS
`)
	displaced := o.takeDisplaced()
	o.add(outcome{passed: []string{"TestA", "TestA/one"}})
	if !slices.Equal(displaced, []string{"TestA/one"}) ||
		!slices.Equal(o.passed, []string{"TestA", "TestA/one", "TestA/two"}) ||
		!slices.Equal(o.skipped, []skip{{"TestB", "no reason: none"}}) {
		t.Errorf("displaced %q, then %+v", displaced, o)
	}
}

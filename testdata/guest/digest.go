package main

import (
	"slices"
	"strings"
)

// A digested is a test binary's verbose output, taken apart by test.
type digested struct {
	lines   []testLine
	passed  []string // tests, subtests as parent/name
	skipped []string
	ranNone bool // it says that it had no test to run
}

// A testLine is a line and the test it comes from, "" for none.
type testLine struct{ test, text string }

// digest reads what a test binary prints under -test.v: "=== RUN", "=== NAME"
// and the like say whose the lines after them are, "--- PASS" and "--- SKIP"
// how a test ended.
func digest(output string) digested {
	var d digested
	current := ""
	for line := range strings.Lines(output) {
		if frame, ok := strings.CutPrefix(line, "=== "); ok {
			_, name, _ := strings.Cut(frame, " ")
			current = strings.TrimSpace(name)
			continue
		}
		test := current
		if end, ok := strings.CutPrefix(strings.TrimLeft(line, " "), "--- "); ok {
			word, rest, _ := strings.Cut(end, ": ")
			test, _, _ = strings.Cut(rest, " ")
			current = ""
			switch word {
			case "PASS":
				d.passed = append(d.passed, test)
			case "SKIP":
				d.skipped = append(d.skipped, test)
			}
		}
		d.ranNone = d.ranNone || line == "testing: warning: no tests to run\n"
		d.lines = append(d.lines, testLine{test, line})
	}
	return d
}

// text is the output without the tests that passed, and without the skipped
// ones unless wanted. A test that has not ended stays: it may be why.
func (d digested) text(skipped bool) string {
	var b strings.Builder
	for _, l := range d.lines {
		if slices.Contains(d.passed, l.test) || !skipped && slices.Contains(d.skipped, l.test) {
			continue
		}
		b.WriteString(l.text)
	}
	return b.String()
}

// Package doctor finds what commonly makes a node fail that serves with IPVS.
//
// Facts are read once, by others. Every check is a pure function over them. An answer names what
// is wrong, why it matters and the command that mends it. What could not be read is said too, so
// silence means that all is well.
package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// Answer is what the checks found. Its JSON form is stable: releases add fields and never
// rename or remove one. Lists are never null.
type Answer struct {
	Time time.Time `json:"time"`
	// Configured: there is something to serve, or svcproxy runs. Else only few checks have
	// something to look at.
	Configured bool   `json:"configured"`
	Running    bool   `json:"running"` // svcproxy answers
	Mode       string `json:"mode"`
	Checks     int    `json:"checks"`
	// Findings are what is wrong, causes before what follows from them.
	Findings  []Finding   `json:"findings"`
	Unchecked []Unchecked `json:"unchecked"`
	// Notes are worth knowing; nothing is wrong with them.
	Notes []string `json:"notes"`
	// Versions are those of the kernel and, if it answers, of svcproxy and its iptables.
	Versions []string `json:"versions"`
}

// Finding is one thing that is wrong.
type Finding struct {
	Check string `json:"check"` // the name of the check
	Text  string `json:"text"`  // what is wrong
	Why   string `json:"why"`   // why it matters
	Mend  string `json:"mend"`  // the command that mends it, or what to do
}

// Unchecked is what could not be checked.
type Unchecked struct {
	What string `json:"what"`
	Why  string `json:"why"` // with the right that is missing
}

// maxNamed is how many objects a finding names before it counts the rest.
const maxNamed = 3

// Examine runs all checks.
func Examine(f *Facts) Answer {
	a := Answer{
		Time: f.Machine.Now.UTC(), Configured: f.Configured, Running: f.Status != nil, Mode: f.Mode, Checks: len(checks),
		Findings: []Finding{}, Unchecked: append([]Unchecked{}, f.Unchecked...), Notes: f.notes(),
		Versions: f.versions(),
	}
	for _, l := range f.Machine.Lacks {
		a.Unchecked = append(a.Unchecked, Unchecked{l.What, l.Why})
	}
	for _, c := range checks {
		if c.last && len(a.Findings) > 0 {
			continue
		}
		for _, found := range c.judge(f) {
			found.Check = c.name
			a.Findings = append(a.Findings, found)
		}
	}
	return a
}

// Names lists the checks in their order.
func Names() []string {
	list := make([]string, len(checks))
	for i, c := range checks {
		list[i] = c.name
	}
	return list
}

// String is the answer for people.
func (a Answer) String() string {
	var b strings.Builder
	width := 0
	for _, f := range a.Findings {
		width = max(width, len(f.Check))
	}
	for _, f := range a.Findings {
		indent := strings.Repeat(" ", width+4)
		fmt.Fprintf(&b, "! %-*s  %s\n%swhy:  %s\n%smend: %s\n", width, f.Check, f.Text, indent, f.Why, indent, f.Mend)
	}
	for _, u := range a.Unchecked {
		fmt.Fprintf(&b, "? not checked: %s: %s\n", u.What, u.Why)
	}
	for _, n := range a.Notes {
		fmt.Fprintf(&b, "  note: %s\n", n)
	}
	if len(a.Versions) > 0 {
		fmt.Fprintf(&b, "  versions: %s\n", strings.Join(a.Versions, ", "))
	}
	b.WriteString(a.summary() + "\n")
	return b.String()
}

func (a Answer) summary() string {
	switch {
	case len(a.Findings) == 1:
		return "1 thing is wrong"
	case len(a.Findings) > 1:
		return fmt.Sprintf("%d things are wrong, causes first", len(a.Findings))
	case !a.Configured:
		return "nothing is wrong; svcproxy has nothing to serve here"
	case len(a.Unchecked) > 0:
		return "nothing is wrong in what could be checked"
	}
	return fmt.Sprintf("nothing is wrong: %d checks", a.Checks)
}

// few joins words, at most maxNamed.
func few(words []string) string { return sources.Few(words, maxNamed) }

// one is a list of one finding.
func one(why, mend, format string, args ...any) []Finding {
	return []Finding{{Text: fmt.Sprintf(format, args...), Why: why, Mend: mend}}
}

// sortedUnique sorts words and drops duplicates.
func sortedUnique(words []string) []string {
	slices.Sort(words)
	return slices.Compact(words)
}

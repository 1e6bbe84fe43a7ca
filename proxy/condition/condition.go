// Package condition keeps what is wrong for a while: conditions that begin, stand and end. A part of svcproxy that
// finds or mends one calls Board.Set. All that shows the state of svcproxy reads the Board: status, events, the log,
// metrics, /healthz, systemd and doctor.
//
// A new sort of condition is a row in kinds.
package condition

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Condition is something that is wrong.
type Condition struct {
	Kind Kind `json:"kind"`
	// Subject is what it is about: a file, a service, an endpoint; "" if the kind says it all.
	Subject string `json:"subject,omitempty"`
	Text    string `json:"text"`
	// Hint says what an operator can do.
	Hint  string    `json:"hint,omitempty"`
	Since time.Time `json:"since"`
	// More counts further conditions of the kind, which are not listed: see Board.List.
	More int `json:"more,omitempty"`
}

// String returns "SUBJECT: TEXT".
func (c Condition) String() string {
	if c.Subject == "" {
		return c.Text
	}
	return c.Subject + ": " + c.Text
}

// compare sorts the worst kinds first, then by subject.
func compare(a, b Condition) int {
	_, i := a.Kind.find()
	_, j := b.Kind.find()
	return cmp.Or(cmp.Compare(i, j), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Subject, b.Subject))
}

// maxNamed is how many conditions of a kind have a line of their own.
const maxNamed = 3

// Lines returns a line for each of the first three conditions of a kind, as text makes it, and one that counts the
// others. The list is one of Board.List.
func Lines(list []Condition, text func(Condition) string) []string {
	var lines []string
	for len(list) > 0 {
		n := slices.IndexFunc(list, func(c Condition) bool { return c.Kind != list[0].Kind })
		if n < 0 {
			n = len(list)
		}
		for _, c := range list[:min(n, maxNamed)] {
			lines = append(lines, text(c))
		}
		if more := n + list[n-1].More - maxNamed; more > 0 {
			lines = append(lines, fmt.Sprintf("and %d more (%s): %s", more, list[0].Kind, list[0].Kind.Meaning()))
		}
		list = list[n:]
	}
	return lines
}

// Count returns how many conditions of a kind stand.
func Count(list []Condition, k Kind) (n int) {
	for _, c := range list {
		if c.Kind == k {
			n += 1 + c.More
		}
	}
	return n
}

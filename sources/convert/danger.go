package convert

import (
	"cmp"

	"github.com/svcproxy/svcproxy/sources"
)

// Danger is what is lost with a part that is not imported. A larger one is worse.
type Danger uint8

// The dangers.
const (
	Irrelevant Danger = iota // nothing that clients or backends notice
	Feature                  // connections go otherwise than they did
	Server                   // backends get other bytes, or see another client
	Access                   // more clients may connect
)

var dangers = [...]string{"irrelevant", "lost features", "what servers see", "who may connect"}

// String is the danger for people.
func (d Danger) String() string { return dangers[d] }

// sortNotes puts the worst first, then in the order of the configuration, each once.
func (r *Result) sortNotes() {
	sources.SortStableFunc(r.Notes, func(a, b Note) int {
		return cmp.Or(cmp.Compare(b.Danger, a.Danger), cmp.Compare(a.Origin.File, b.Origin.File),
			cmp.Compare(a.Origin.Line, b.Origin.Line))
	})
	seen, once := map[Note]bool{}, r.Notes[:0] // ports of one service have the same lines
	for _, n := range r.Notes {
		if !seen[n] {
			seen[n] = true
			once = append(once, n)
		}
	}
	r.Notes = once
}

// Widens reports whether more clients may connect than could.
func (r *Result) Widens() bool { return len(r.Notes) > 0 && r.Notes[0].Danger == Access }

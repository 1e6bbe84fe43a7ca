package sources

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Problem is one thing wrong, or doubtful, in what a source gave, said to a person.
type Problem struct {
	Service string // "namespace/name"; "" when it is not about one service
	Origin  Origin
	Message string // what is wrong, and what would be right; one line, lower case
}

// Error is "file:line: namespace/name: message", without what is not known.
func (p Problem) Error() string {
	var b strings.Builder
	if o := p.Origin.String(); o != "" {
		b.WriteString(o + ": ")
	}
	if p.Service != "" {
		b.WriteString(strings.TrimPrefix(p.Service, DefaultNamespace+"/") + ": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// SortProblems puts problems in order of file, line and message.
func SortProblems(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(a.Origin.File, b.Origin.File),
			cmp.Compare(a.Origin.Line, b.Origin.Line),
			cmp.Compare(a.Message, b.Message))
	})
}

// RejectedError is why something that a source read does not apply, or not wholly. Files are taken or
// rejected as a whole, and a rejected one goes on with its own last good content, if it had any.
type RejectedError struct {
	Files    []string  // those rejected or missing, sorted
	Problems []Problem // at least one, in order of file and line

	// Incomplete: the table beside this error may lack what an earlier run served, and nothing should be
	// removed for not being in it. A file that the configuration names has not been there since the start, a
	// directory cannot be listed, or a refused file has no last good content because the record of it is lost.
	Incomplete bool

	// Nothing: no file is good and none is known to have been, so there is nothing to serve from this source.
	Nothing bool

	// Unserved are the files, sorted, that are there and refused and have no last good content.
	Unserved []string

	// Stale are the files of which content of an earlier run is served: they are refused since this
	// process started.
	Stale []StaleFile
}

// StaleFile is a refused file, and when what is served of it was last good.
type StaleFile struct {
	Path string
	Good time.Time
}

// Error is the first problem and the number of the others.
func (e *RejectedError) Error() string {
	switch len(e.Problems) {
	case 0:
		return "rejected: " + strings.Join(e.Files, ", ")
	case 1:
		return e.Problems[0].Error()
	}
	return fmt.Sprintf("%s (and %d more)", e.Problems[0].Error(), len(e.Problems)-1)
}

// Unwrap gives each problem as an error.
func (e *RejectedError) Unwrap() []error {
	errs := make([]error, len(e.Problems))
	for i, p := range e.Problems {
		errs[i] = p
	}
	return errs
}

// Exit is the exit code of proxy/cli for a file that is not valid. There is no hint: each
// problem says what would be right.
func (e *RejectedError) Exit() (code int, hint string) { return 3, "" }

package sources

import (
	"fmt"
	"strings"
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

// RejectedError is why something a source read does not apply: files are taken or rejected as a whole,
// and a rejected one goes on with its own last good content.
type RejectedError struct {
	Files    []string  // those rejected, sorted
	Problems []Problem // at least one, in order of file and line
}

// Error is the first problem and the number of the others.
func (e *RejectedError) Error() string {
	switch len(e.Problems) {
	case 0:
		return fmt.Sprintf("%s rejected", strings.Join(e.Files, ", "))
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

package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"github.com/svcproxy/svcproxy/proxy/cli"
)

// Problem is one thing wrong, or doubtful, with a configuration.
type Problem struct {
	File    string // "" when a flag is meant, or the default file's absence
	Line    int    // 0 when there is none
	Message string // what is wrong, and what would be right; one line, lower case
}

// Error is "file:line: message", without what is not known.
func (p Problem) Error() string {
	switch {
	case p.File == "":
		return p.Message
	case p.Line == 0:
		return fmt.Sprintf("%s: %s", p.File, p.Message)
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message)
}

// Error is a configuration that is not valid: exit code 3.
type Error struct {
	Problems []Problem // at least one, flags first, then in order of lines
}

// Error is the first problem and the number of the others.
func (e *Error) Error() string {
	if len(e.Problems) == 1 {
		return e.Problems[0].Error()
	}
	return fmt.Sprintf("%s (and %d more)", e.Problems[0].Error(), len(e.Problems)-1)
}

// Unwrap gives each problem as an error.
func (e *Error) Unwrap() []error {
	errs := make([]error, len(e.Problems))
	for i, p := range e.Problems {
		errs[i] = p
	}
	return errs
}

// Exit is the exit code. There is no hint: each problem says what would be right.
func (e *Error) Exit() (code int, hint string) { return cli.Config, "" }

// spelt is a name as it is, or in quotes if it would not show on a line.
func spelt(name string) string {
	if quoted := strconv.Quote(name); quoted[1:len(quoted)-1] != name {
		return quoted
	}
	return name
}

// sortProblems puts them in the order of the text: map order must not show.
func sortProblems(ps []Problem) {
	slices.SortFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Message, b.Message))
	})
}

// UnreadableError is a configuration that is not there, or no file: exit code 3, or 5 where it may not be
// read.
type UnreadableError struct {
	Err error // names the file
}

func (e *UnreadableError) Error() string { return "reading the configuration: " + e.Err.Error() }
func (e *UnreadableError) Unwrap() error { return e.Err }

// Exit is the exit code; package cli has the hint for a missing permission.
func (e *UnreadableError) Exit() (code int, hint string) {
	if errors.Is(e.Err, fs.ErrPermission) {
		return cli.Permission, ""
	}
	return cli.Config, ""
}

package sources

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Problem is one error or doubt about what a source delivered.
type Problem struct {
	Service string // its full name; "" if it is not about one service
	Origin  Origin
	Message string // what is wrong, and what would be right; one line in lower case
	Denied  bool   // this process may not read the file, so nothing is known of its content
}

// Error returns "file:line: service: message", without the parts that are not known.
func (p Problem) Error() string {
	var b strings.Builder
	if o := p.Origin.String(); o != "" {
		b.WriteString(o + ": ")
	}
	if p.Service != "" {
		b.WriteString(p.DisplayName() + ": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// SortProblems sorts problems by file, line, message and service.
func SortProblems(problems []Problem) {
	SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(a.Origin.File, b.Origin.File),
			cmp.Compare(a.Origin.Line, b.Origin.Line),
			cmp.Compare(a.Message, b.Message),
			cmp.Compare(a.Service, b.Service))
	})
}

// RejectedError is why a source refused what it read, or part of it. A file is accepted or refused as a whole. A
// refused file keeps its last good content, if it had any.
type RejectedError struct {
	Files    []string  // refused or missing, sorted
	Problems []Problem // at least one, in order of file and line

	// Incomplete: the table with this error may lack services that an earlier run served, so nothing should be
	// removed for not being in it. The reason is a directory that cannot be listed, a refused file whose last
	// good content is lost, or a named file that was missing since the start.
	Incomplete bool

	// Nothing: the source has nothing to serve. No file is valid, and none is known to have been.
	Nothing bool

	// Unserved are the refused files that exist and have no last good content, sorted.
	Unserved []string

	// Stale are the files that were refused ever since this process started. What is served of them is their
	// content of an earlier run.
	Stale []StaleFile
}

// StaleFile is a refused file, and when the content that is served of it was accepted.
type StaleFile struct {
	Path string
	Good time.Time
}

// Error returns the first problem and the number of the others.
func (e *RejectedError) Error() string {
	switch len(e.Problems) {
	case 0:
		return "rejected: " + strings.Join(e.Files, ", ")
	case 1:
		return e.Problems[0].Error()
	}
	return fmt.Sprintf("%s (and %d more)", e.Problems[0].Error(), len(e.Problems)-1)
}

// Unwrap returns each problem as an error.
func (e *RejectedError) Unwrap() []error {
	errs := make([]error, len(e.Problems))
	for i, p := range e.Problems {
		errs[i] = p
	}
	return errs
}

// Exit is the exit code of proxy/cli for a file that is not valid, or for a missing permission if that is
// all. There is no hint: each problem says what would be right.
func (e *RejectedError) Exit() (code int, hint string) {
	if len(e.Problems) > 0 && !slices.ContainsFunc(e.Problems, func(p Problem) bool { return !p.Denied }) {
		return 5, ""
	}
	return 3, ""
}

// Words are what people are told about a source.
type Words struct {
	Name    string
	Refused string // what it read last is not valid
	Waiting string // it has not delivered a complete table yet
	Good    string // after Refused
}

// WordsFor returns the words for a source. People know their services files, not that one source reads them all.
func WordsFor(source string) Words {
	if source == Files {
		return Words{
			Name: "the services files", Refused: "a services file is refused",
			Waiting: "not all services files are read yet", Good: "the services files are good again",
		}
	}
	name := "source " + source
	return Words{Name: name, Refused: name + " is refused", Waiting: name + " has not delivered yet",
		Good: name + " is good again"}
}

// Complaint is what is wrong with a source, for people. The lines of files begin with their name, and need no other.
func Complaint(source, text string) string {
	if strings.HasPrefix(text, "/") {
		return "file " + text
	}
	return WordsFor(source).Name + ": " + text
}

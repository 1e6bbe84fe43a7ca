package config

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/sources"
)

// problemAt is a problem in a line of the configuration file.
func problemAt(file string, line int, format string, args ...any) sources.Problem {
	return sources.Problem{Origin: sources.Origin{File: file, Line: line}, Message: fmt.Sprintf(format, args...)}
}

// Error is an invalid configuration: exit code 3.
type Error struct {
	Problems []sources.Problem // at least one: those of flags first, then in order of lines
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

// spelt is a name, in quotes if it has characters that do not show on a line.
func spelt(name string) string {
	if quoted := strconv.Quote(name); quoted[1:len(quoted)-1] != name {
		return quoted
	}
	return name
}

// UnreadableError is a configuration that is missing or not a file: exit code 3; or 5 if permission is missing.
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

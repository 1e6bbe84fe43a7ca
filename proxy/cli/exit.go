package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
)

// The exit codes.
const (
	OK         = 0
	Failed     = 1
	Usage      = 2
	Config     = 3 // the configuration or a services file is not valid
	Missing    = 4 // the kernel or a program lacks something
	Permission = 5
	NoDaemon   = 6  // the daemon cannot be reached
	Degraded   = 7  // status: something is wrong; explain: some backends do not get the packet; doctor: something is wrong
	NoBackends = 8  // status: a service has no backends
	Changes    = 10 // plan --detailed-exitcode: there is something to do
)

// Error is an error with its exit code and the next step. Without Err, the exit code
// alone is the answer.
type Error struct {
	Code int
	Err  error
	Hint string
}

// Error is the text of Err: the code is for the shell, not for a person.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an Error with a code and a hint ("" for none) from a format as
// fmt.Errorf takes it.
func Errorf(code int, hint, format string, args ...any) error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...), Hint: hint}
}

// exiter is an error of another package that knows its exit code and, if it has one,
// the next step. Its method is not called ExitCode because os/exec.ExitError has one.
type exiter interface {
	Exit() (code int, hint string)
}

// Tell prints an error for the user and returns the exit code. Each part of the error
// is a line of its own, with its hints below.
func Tell(w io.Writer, err error) int {
	code := Code(err)
	failure, hint := "", ""
	if Journal(w) {
		failure, hint = PriorityError, PriorityInfo
	}
	all := messages(err)
	if len(all) > 0 && code == Permission && !hinted(err) {
		all[len(all)-1].hint("run as root, or with CAP_NET_ADMIN and CAP_NET_RAW")
	}
	for _, m := range all {
		fmt.Fprintf(w, "%ssvcproxy: %s\n", failure, m.text)
		for _, h := range m.hints {
			fmt.Fprintf(w, "%shint: %s\n", hint, h)
		}
	}
	return code
}

// hinted reports whether an error says itself what to do about it.
func hinted(err error) bool {
	e := &Error{}
	return errors.As(err, &e) && e.Hint != ""
}

// Code is the exit code of an error.
func Code(err error) int {
	e := &Error{}
	switch {
	case err == nil:
		return OK
	case errors.As(err, &e):
		return e.Code
	}
	codes := codesOf(err)
	if errors.Is(err, fs.ErrPermission) {
		codes = append(codes, Permission)
	}
	// Of several parts, the one to mend first gives the code.
	for _, code := range []int{Config, Permission, Missing} {
		if slices.Contains(codes, code) {
			return code
		}
	}
	return Failed
}

// codesOf lists the codes of all parts of an error that know one.
func codesOf(err error) []int {
	var codes []int
	if e, ok := err.(exiter); ok {
		code, _ := e.Exit()
		codes = append(codes, code)
	}
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			codes = append(codes, codesOf(part)...)
		}
	case interface{ Unwrap() error }:
		codes = append(codes, codesOf(e.Unwrap())...)
	}
	return codes
}

// Lines are the lines that Tell prints for an error, without hints. For nil there are
// none.
func Lines(err error) []string {
	lines := []string{}
	if err == nil {
		return lines
	}
	for _, m := range messages(err) {
		lines = append(lines, m.text)
	}
	return lines
}

// message is one line for the user, and the next steps.
type message struct {
	text  string
	hints []string
}

// hint adds a step, "" for none.
func (m *message) hint(step string) {
	if step != "" {
		m.hints = append(m.hints, step)
	}
}

// messages splits an error into its parts. An Error without Err has none.
func messages(err error) []message {
	var all []message
	switch e := err.(type) {
	case nil:
		return nil
	case *Error: // its code is not for the user
		if all = messages(e.Err); len(all) > 0 {
			all[len(all)-1].hint(e.Hint)
		}
		return all
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			all = append(all, messages(part)...)
		}
	case interface{ Unwrap() error }:
		// An error that wraps several parts says less than the parts do. One that
		// wraps a single part adds what was being done.
		if all = messages(e.Unwrap()); len(all) == 1 {
			all[0].text = err.Error()
		}
	}
	if all != nil {
		return all
	}
	m := message{text: err.Error()}
	if e, ok := err.(exiter); ok {
		_, step := e.Exit()
		m.hint(step)
	}
	return []message{m}
}

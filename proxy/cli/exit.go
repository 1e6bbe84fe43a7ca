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

func (e *Error) Error() string { return fmt.Sprintf("exit %d: %v", e.Code, e.Err) }
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
// is a line of its own, with its hint below.
func Tell(w io.Writer, err error) int {
	if err == nil {
		return OK
	}
	e := &Error{Err: err}
	if !errors.As(err, &e) {
		e.Code = Code(err)
	}
	if e.Err == nil {
		return e.Code
	}
	if e.Code == Permission && e.Hint == "" {
		e.Hint = "run as root, or with CAP_NET_ADMIN and CAP_NET_RAW"
	}
	failure, hint := "", ""
	if Journal(w) {
		failure, hint = PriorityError, PriorityInfo
	}
	for _, m := range append(messages(e.Err), message{hint: e.Hint}) {
		if m.text != "" {
			fmt.Fprintf(w, "%ssvcproxy: %s\n", failure, m.text)
		}
		if m.hint != "" {
			fmt.Fprintf(w, "%shint: %s\n", hint, m.hint)
		}
	}
	return e.Code
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

// message is one line for the user, and the next step.
type message struct{ text, hint string }

// messages splits an error into its parts.
func messages(err error) []message {
	if err == nil {
		return nil
	}
	var all []message
	switch e := err.(type) {
	case *Error: // its code is not for the user
		all = messages(e.Err)
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
		_, m.hint = e.Exit()
	}
	return []message{m}
}

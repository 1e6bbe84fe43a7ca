package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/sources"
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
	Degraded   = 7  // status: something is not as it should be
	NoBackends = 8  // status: a service has nobody to serve it
	Changes    = 10 // plan --detailed-exitcode: there is something to do
)

// Error is an error with the exit code and the next step that it calls for. One
// without Err is an answer, told by the code alone.
type Error struct {
	Code int
	Err  error
	Hint string
}

func (e *Error) Error() string { return fmt.Sprintf("exit %d: %v", e.Code, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// Tell prints an error as a person wants it, each part of it on a line of its
// own with its hint below, and gives the exit code.
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
	for _, m := range append(messages(e.Err), message{hint: e.Hint}) {
		if m.text != "" {
			fmt.Fprintf(w, "svcproxy: %s\n", m.text)
		}
		if m.hint != "" {
			fmt.Fprintf(w, "hint: %s\n", m.hint)
		}
	}
	return e.Code
}

// Code is the exit code that an error calls for.
func Code(err error) int {
	e := &Error{}
	switch {
	case err == nil:
		return OK
	case errors.As(err, &e):
		return e.Code
	}
	return codeOf(err)
}

// Lines are what Tell would say about an error, without hints; none of nil.
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

// codeOf is the exit code for an error that does not bring its own.
func codeOf(err error) int {
	var invalid *config.Error
	var rejected *sources.RejectedError
	var unreadable *config.UnreadableError
	var missing *kernel.MissingError
	switch {
	case errors.As(err, &invalid), errors.As(err, &rejected):
		return Config
	case errors.Is(err, fs.ErrPermission):
		return Permission
	case errors.As(err, &unreadable):
		return Config
	case errors.As(err, &missing):
		return Missing
	}
	return Failed
}

// message is one thing to say to a person.
type message struct{ text, hint string }

// messages takes an error of many parts apart.
func messages(err error) []message {
	var all []message
	switch e := err.(type) {
	case *config.Error:
		for _, p := range e.Problems {
			all = append(all, message{text: p.Error()})
		}
	case *sources.RejectedError:
		for _, p := range e.Problems {
			all = append(all, message{text: p.Error()})
		}
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			all = append(all, messages(part)...)
		}
	case interface{ Unwrap() error }:
		// What wraps many parts says less than they do.
		if all = messages(e.Unwrap()); len(all) == 1 {
			all[0].text = err.Error()
		}
	}
	if all == nil {
		m := message{text: err.Error()}
		if missing, ok := err.(*kernel.MissingError); ok {
			m.hint = missing.Hint
		}
		return []message{m}
	}
	return all
}

// Errorf makes an Error with a code and a hint ("" for none) from a format as
// fmt.Errorf takes it.
func Errorf(code int, hint, format string, args ...any) error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...), Hint: hint}
}

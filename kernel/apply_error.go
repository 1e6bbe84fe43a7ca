package kernel

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// OpError is an op that failed. Index is its place in the ops of its plan.
type OpError struct {
	Index int
	Op    Op
	Err   error
}

func (e *OpError) Error() string { return fmt.Sprintf("%s: %v", e.Op, e.Err) }
func (e *OpError) Unwrap() error { return e.Err }

// ApplyError is returned by Apply: one error for every op that failed, in the order
// of the plan. The other ops were carried out.
type ApplyError struct{ Failed []*OpError }

// Error names the first failures; Failed has all.
func (e *ApplyError) Error() string {
	const most = 3
	var b strings.Builder
	fmt.Fprintf(&b, "%d of the plan's steps failed", len(e.Failed))
	for i, f := range e.Failed {
		if i == most {
			b.WriteString("; ...")
			break
		}
		fmt.Fprintf(&b, "; %v", f)
	}
	return b.String()
}

// Unwrap lets errors.Is look at every failure.
func (e *ApplyError) Unwrap() []error {
	errs := make([]error, len(e.Failed))
	for i, f := range e.Failed {
		errs[i] = f
	}
	return errs
}

// Failures makes an ApplyError of the ops whose error is not nil, or nil if all
// succeeded. errs is parallel to ops.
func Failures(ops []Op, errs []error) error {
	var failed []*OpError
	for i, err := range errs {
		if err != nil {
			failed = append(failed, &OpError{Index: i, Op: ops[i], Err: err})
		}
	}
	if failed == nil {
		return nil
	}
	return &ApplyError{Failed: failed}
}

// Done returns those ops of a plan that were carried out. err is what Apply returned:
// all were without an error, none with an error that is no *ApplyError.
func Done(ops []Op, err error) []Op {
	var failed *ApplyError
	switch {
	case err == nil:
		return ops
	case !errors.As(err, &failed):
		return nil
	}
	done := slices.Clone(ops[:0])
	from := 0
	for _, f := range failed.Failed {
		done = append(done, ops[from:f.Index]...)
		from = f.Index + 1
	}
	return append(done, ops[from:]...)
}

// ErrUnknownOutcome marks an op that may or may not have been carried out: the
// kernel's answer was lost. The next reading tells.
var ErrUnknownOutcome = errors.New("outcome unknown, the kernel's answer was lost")

// ErrNotDone marks an op that was not carried out because another op of its transaction was refused.
var ErrNotDone = errors.New("not done, its transaction was refused")

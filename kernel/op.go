package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Verb is what an Op does to its object.
type Verb uint8

// The verbs.
const (
	Add Verb = iota
	Change
	Remove
)

// String gives the sign that starts an op's line: +, ~ or -.
func (v Verb) String() string { return [...]string{"+", "~", "-"}[v] }

// Op is one step of a plan. Was is the object as read, nil for Add.
type Op struct {
	Verb   Verb
	Object Object
	Was    Object
}

// String is one line: the verb's sign, and what one would give the kernel's own
// tool to do it.
func (o Op) String() string {
	if o.Verb == Change && o.Was != nil {
		return fmt.Sprintf("%s %s (was %s)", o.Verb, o.command(), o.Was)
	}
	return fmt.Sprintf("%s %s", o.Verb, o.command())
}

// command is the object's text, which adds it, with the tool's words for the verb.
func (o Op) command() string {
	if c, ok := o.Object.(commander); ok {
		return c.command(o.Verb, o.Was)
	}
	return o.Object.String()
}

// Plan is what Diff found to do.
type Plan struct {
	Ops []Op
	// Draining counts the real servers that wait for their connections to
	// end, Drains names them, and Wake is the nearest of their deadlines, zero
	// if there is none.
	Draining int
	Drains   []Drain
	Wake     time.Time
	// Served are those addresses, among the ones to be made local, that have a
	// virtual server of ours already.
	Served []netip.Addr
	// Conflicts are the wanted virtual servers that somebody else has made.
	Conflicts []Conflict
	// Probes are the claims to ask other hosts about before their VIPs are made
	// local, and Taken those that another host has: they are left out.
	Probes []Claim
	Taken  []Taken
	// Held are sets of our names and another type that rules of other programs use.
	Held []Set
	// Left are virtual servers that kube-proxy left and nobody wants, sorted.
	Left []Virtual
	// Warnings say what an operator should look at in what is left as it is, a
	// line each.
	Warnings []string
}

// Empty says whether there is nothing to do.
func (p Plan) Empty() bool { return len(p.Ops) == 0 }

// Conflict is a wanted virtual server that exists and is not ours.
type Conflict struct {
	Want, Have Virtual
}

func (c Conflict) String() string {
	return fmt.Sprintf("%s is wanted but is somebody else's: %s", c.Want, c.Have)
}

// OpError is an op that failed.
type OpError struct {
	Op  Op
	Err error
}

func (e *OpError) Error() string { return fmt.Sprintf("%s: %v", e.Op, e.Err) }
func (e *OpError) Unwrap() error { return e.Err }

// ApplyError is returned by Apply: one error for every op that failed. The
// others were carried out.
type ApplyError struct{ Failed []*OpError }

// Error names the first failures; a full list is in Failed.
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
			failed = append(failed, &OpError{Op: ops[i], Err: err})
		}
	}
	if failed == nil {
		return nil
	}
	return &ApplyError{Failed: failed}
}

// ErrUnknownOutcome marks an op that may or may not have been carried out: the
// kernel's answer was lost. The next reading tells.
var ErrUnknownOutcome = errors.New("outcome unknown, the kernel's answer was lost")

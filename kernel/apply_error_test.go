package kernel

import (
	"errors"
	"slices"
	"testing"
)

// Equal ops are distinguished by their index in the plan.
func TestDoneGoesByIndex(t *testing.T) {
	swap := Op{Verb: Change, Object: Swap{From: "a", To: "b"}}
	ops := []Op{swap, {Object: Link{Name: "l"}}, swap, {Object: Link{Name: "m"}}}
	no := errors.New("no")
	for _, c := range []struct {
		errs []error
		want []Op
	}{
		{make([]error, 4), ops},
		{[]error{no, nil, nil, nil}, ops[1:]},
		{[]error{nil, nil, no, no}, ops[:2]},
		{[]error{no, no, no, no}, []Op{}},
		{[]error{nil, no, nil, no}, []Op{swap, swap}},
	} {
		if got := Done(ops, Failures(ops, c.errs)); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.errs, got, c.want)
		}
	}
	if got := Done(ops, no); got != nil {
		t.Errorf("without an ApplyError nothing was done, got %v", got)
	}
}

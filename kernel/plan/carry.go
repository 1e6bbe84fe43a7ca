package plan

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// Carry carries a plan out in its order and goes on past errors. kernel/host and
// kernel/fake apply plans with it. apply gets neighbouring ops of kinds that go together
// in one call, without those whose prerequisite failed. It returns an error for each op,
// or nil if all succeeded. Ops that it gives a kernel.ErrNotDone are carried out without the
// others. The error of Carry, if any, is a *kernel.ApplyError.
func Carry(p kernel.Plan, n kernel.Names, together func(a, b kernel.Kind) bool, apply func([]kernel.Op) []error) error {
	c := carrying{apply: apply}
	c.Names, c.Ops, c.served = n, p.Ops, slices.SortedFunc(slices.Values(p.Served), netip.Addr.Compare)
	for start := 0; start < len(p.Ops); {
		end, first := start+1, p.Ops[start].Object.Kind()
		for end < len(p.Ops) && together(first, p.Ops[end].Object.Kind()) {
			end++
		}
		c.run(start, end)
		start = end
	}
	return kernel.Failures(p.Ops, c.errs)
}

// carrying is one call of Carry.
type carrying struct {
	dependents
	errs  []error // of Ops, by index; nil while none failed
	apply func([]kernel.Op) []error
}

// tries is how often Carry tries ops again that a transaction did not carry out because of another op.
const tries = 8

// run carries out the ops from start to end.
func (c *carrying) run(start, end int) {
	if !c.failures {
		errs := c.apply(c.Ops[start:end:end])
		if !slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
			return
		}
		c.errs = make([]error, len(c.Ops))
		copy(c.errs[start:end], errs)
	}
	left := make([]int, end-start)
	for i := range left {
		left[i] = start + i
	}
	if !c.failures {
		left = c.noted(left)
	} else {
		left = c.runStanding(left)
	}
	for n, try := end-start, 0; len(left) > 0 && len(left) < n && try < tries; try++ {
		n, left = len(left), c.runStanding(left)
	}
	for _, i := range left {
		c.note(c.Ops[i], c.errs[i])
	}
	for i := start; i < end; i++ {
		if v, ok := c.Ops[i].Object.(kernel.Virtual); ok && c.Ops[i].Verb == kernel.Add && errors.Is(c.errs[i], fs.ErrExist) {
			c.disown(v.Key)
		}
	}
}

// runStanding carries out those of some ops whose prerequisites did not fail. It returns those that were not carried
// out because another one of their transaction was refused.
func (c *carrying) runStanding(places []int) (left []int) {
	for n := len(places) + 1; n > len(places); { // chains that lead to one that is left out may be before it
		n, places = len(places), c.standing(places)
	}
	if len(places) == 0 {
		return nil
	}
	going := make([]kernel.Op, len(places))
	for i, at := range places {
		going[i] = c.Ops[at]
	}
	for i, err := range c.apply(going) {
		c.errs[places[i]] = err
	}
	return c.noted(places)
}

// standing returns those whose prerequisites did not fail, and notes that the others are left out.
func (c *carrying) standing(places []int) (standing []int) {
	for _, i := range places {
		if c.errs[i] = c.lost(c.Ops[i]); c.errs[i] == nil {
			standing = append(standing, i)
		} else {
			c.note(c.Ops[i], c.errs[i])
		}
	}
	return standing
}

// noted notes the results of ops and returns those that were not carried out because of another one.
func (c *carrying) noted(places []int) (left []int) {
	for _, i := range places {
		switch err := c.errs[i]; {
		case errors.Is(err, kernel.ErrNotDone):
			left = append(left, i)
		case err != nil:
			c.note(c.Ops[i], err)
		}
	}
	for _, i := range places {
		if c.errs[i] == nil {
			c.note(c.Ops[i], nil)
		}
	}
	return left
}

// disown removes an entry of this plan from the ownership set again, because another
// program made its virtual server since the reading. Otherwise the next reading would
// count that virtual server as owned.
func (c *carrying) disown(k kernel.VirtualKey) {
	for i, o := range c.Ops {
		e, ok := o.Object.(kernel.Entry)
		if !ok || o.Verb != kernel.Add || c.errs[i] != nil || e.Key() != k ||
			!c.Names.IsSet(e.Set, k.Family(), kernel.VirtualServer) {
			continue
		}
		if errs := c.apply([]kernel.Op{{Verb: kernel.Remove, Object: e, Was: e}}); len(errs) == 0 || errs[0] == nil {
			c.errs[i] = fmt.Errorf("removed again, since another program made its virtual server: %w", fs.ErrExist)
		}
	}
}

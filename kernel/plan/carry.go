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
// or nil if all succeeded. The error of Carry, if any, is a *kernel.ApplyError.
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

// run carries out the ops from start to end.
func (c *carrying) run(start, end int) {
	if c.failures {
		c.runStanding(start, end)
	} else if c.runAll(start, end) {
		return
	}
	c.note(c.Ops[start:end], c.errs[start:end])
	for i := start; i < end; i++ {
		if v, ok := c.Ops[i].Object.(kernel.Virtual); ok && c.Ops[i].Verb == kernel.Add && errors.Is(c.errs[i], fs.ErrExist) {
			c.disown(v.Key)
		}
	}
}

// runAll carries out all of them, while nothing has failed so far, and says whether they
// succeeded.
func (c *carrying) runAll(start, end int) bool {
	errs := c.apply(c.Ops[start:end:end])
	if !slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		return true
	}
	c.errs = make([]error, len(c.Ops))
	copy(c.errs[start:end], errs)
	return false
}

// runStanding carries out those whose prerequisites did not fail.
func (c *carrying) runStanding(start, end int) {
	var going []kernel.Op
	var at []int
	for i := start; i < end; i++ {
		if c.errs[i] = c.lost(c.Ops[i]); c.errs[i] == nil {
			going, at = append(going, c.Ops[i]), append(at, i)
		}
	}
	if len(going) == 0 {
		return
	}
	for i, err := range c.apply(going) {
		c.errs[at[i]] = err
	}
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

package plan

import (
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
)

// diffRuleDrains drains endpoints that rules no longer lead to, over TCP, and those that had weight 0, and so no rule,
// before they left. The connection tracker keeps their connections, and nothing else knows of these endpoints, so
// memory.Drains and memory.Quiesced are the only record of them: a restart forgets them. At its deadline a drain ends
// with the removal of its tracked connections. Without a drain timeout there is nothing to do.
//
// Nothing counts these connections, so a drain lasts until its deadline, with or without any.
func (d *differ) diffRuleDrains() {
	if !d.want.Policy.DrainRules {
		return
	}
	left := keep(d.memory.Drains, func(x kernel.Drain) bool { return !d.hasReal(x.Real) })
	changed := d.decided(kernel.Flow{}) && d.translates(kernel.TCP)
	begins := d.unquiesced()
	if !changed && d.decided(kernel.Flow{}) {
		begins = append(begins, d.leftSlots(kernel.TCP)...)
	}
	if len(left)+len(begins) == 0 && !changed {
		return
	}
	want := byRules(d.have.Names, d.want.Chains, kernel.TCP).reals
	if changed {
		for _, r := range d.leadsOf(kernel.TCP).reals {
			begins = append(begins, r.Key)
		}
	}
	left = d.withBegun(left, begins)
	byReal := func(a, b kernel.Drain) int { return a.Real.Compare(b.Real) }
	slices.SortFunc(left, byReal)
	reals := make([]kernel.RealKey, len(left))
	for i, x := range left {
		reals[i] = x.Real
	}
	slotless := d.slotless(reals)
	for _, x := range left {
		if _, found := slices.BinarySearchFunc(slotless, x.Real, kernel.RealKey.Compare); found && !isIn(want, x.Real) {
			d.ruleDrain(x)
		}
	}
	slices.SortFunc(d.plan.Drains, byReal)
}

// unquiesced returns the endpoints that had weight 0 at the last plan and have it no longer. Most of them are gone; the
// others have rules again.
func (d *differ) unquiesced() []kernel.RealKey {
	p := &d.want.Policy
	if !d.decided(kernel.Flow{}) || kernel.SameSlice(p.Quiesced, d.memory.Quiesced) {
		return nil
	}
	return keep(d.memory.Quiesced, func(k kernel.RealKey) bool { return !d.quiesced(k) })
}

// quiesced reports whether an endpoint is wanted with weight 0.
func (d *differ) quiesced(k kernel.RealKey) bool {
	_, found := slices.BinarySearchFunc(d.want.Policy.Quiesced, k, kernel.RealKey.Compare)
	return found
}

// withBegun adds drains that begin now. Some of their endpoints may drain already, or be wanted.
func (d *differ) withBegun(drains []kernel.Drain, begins []kernel.RealKey) []kernel.Drain {
	if len(begins) == 0 {
		return drains
	}
	slices.SortFunc(begins, kernel.RealKey.Compare)
	known := drains
	drains = slices.Clone(drains)
	for _, k := range slices.Compact(begins) {
		_, found := slices.BinarySearchFunc(known, k, func(x kernel.Drain, k kernel.RealKey) int { return x.Real.Compare(k) })
		if !found {
			drains = append(drains, kernel.Drain{Real: k, Since: d.now.Time})
		}
	}
	return drains
}

// ruleDrain goes on with a drain, or ends it.
func (d *differ) ruleDrain(x kernel.Drain) {
	if d.quiesced(x.Real) || d.cuts(x.Real) || !d.decided(kernel.Flow{Key: x.Real}) {
		return
	}
	timeout := d.drainTimeout(x.Real.Virtual)
	deadline := x.Since.Add(timeout)
	switch {
	case timeout == 0:
		return
	case !d.now.Time.Before(deadline):
		d.clearFlow(x.Real)
		return
	}
	d.plan.Drains = append(d.plan.Drains, x)
	d.wakeAt(deadline)
}

// wakeAt makes the loop plan again at a time, or earlier.
func (d *differ) wakeAt(t time.Time) {
	if d.plan.Wake.IsZero() || t.Before(d.plan.Wake) {
		d.plan.Wake = t
	}
}

func (d *differ) hasReal(k kernel.RealKey) bool { return d.have.Reals.Has(k) }

// isIn reports whether sorted real servers have one.
func isIn(reals []kernel.Real, k kernel.RealKey) bool {
	_, found := slices.BinarySearchFunc(reals, k, func(r kernel.Real, k kernel.RealKey) int { return r.Key.Compare(k) })
	return found
}

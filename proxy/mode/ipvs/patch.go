package ipvs

import (
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
)

// patched returns the state of f, if that differs from the last state only in
// real servers and in entries of the sets of hairpins.
func (m *Mode) patched(f *frontend.Frontends, c mode.Config) (kernel.State, bool) {
	if m.last == nil {
		return kernel.State{}, false
	}
	changed, ok := f.Since(m.last)
	if !ok || !m.config.Same(c) {
		return kernel.State{}, false
	}
	p := patch{Mode: m, now: f, changed: changed, repeated: m.repeated}
	for _, s := range changed {
		p.service(s)
	}
	return p.apply()
}

// patch is what the changed services change in a state.
type patch struct {
	*Mode
	now     *frontend.Frontends
	changed []frontend.Changed
	fronts  []patchedFront
	// Entries of the sets of hairpins, all sorted. repeated replaces Mode.repeated; gone
	// are no longer needed by any service port, fresh were not needed before.
	repeated, gone, fresh []kernel.Entry
	owned                 bool // repeated is a copy
}

// patchedFront is a front with other real servers than before.
type patchedFront struct {
	key   kernel.VirtualKey
	reals []kernel.Real
}

// service notes what changed for a service.
func (p *patch) service(s frontend.Changed) {
	for _, i := range s.Fronts {
		x := &p.now.Fronts[i]
		before, now := p.last.Backends(x), p.now.Backends(x)
		if !slices.EqualFunc(before, now, func(a, b frontend.Backend) bool { return p.same(s.Service, a, b) }) {
			reals := appendReals(make([]kernel.Real, 0, len(now)), p.now, x, p.config)
			p.fronts = append(p.fronts, patchedFront{x.Key, reals})
		}
	}
	for _, f := range p.now.Config.Families() {
		set := p.config.Names.Set(f, kernel.LoopBack)
		before, now := appendLoops(nil, p.last, s.Service, f, set), appendLoops(nil, p.now, s.Service, f, set)
		sortEntries(before)
		sortEntries(now)
		p.replace(before, now)
	}
}

// same reports whether a backend of the last frontends of a service and one of the new ones have equal real servers.
func (p *patch) same(service int, before, now frontend.Backend) bool {
	upper, lower := p.last.Limits(service, before)
	upperNow, lowerNow := p.now.Limits(service, now)
	return p.last.Addr(service, before) == p.now.Addr(service, now) &&
		p.last.Weight(service, before) == p.now.Weight(service, now) && upper == upperNow && lower == lowerNow
}

// replace takes the entries that a service needed out and puts others in.
func (p *patch) replace(before, now []kernel.Entry) {
	if slices.Equal(before, now) {
		return
	}
	if !p.owned {
		p.repeated, p.owned = slices.Clone(p.repeated), true
	}
	for _, e := range before {
		// An entry that was needed more than once stays.
		if !drop(&p.repeated, e) && !drop(&p.fresh, e) {
			put(&p.gone, e)
		}
	}
	for _, e := range now {
		switch {
		case drop(&p.gone, e):
		case contains(p.fresh, e) || p.state.Entries.Has(e):
			put(&p.repeated, e)
		default:
			put(&p.fresh, e)
		}
	}
}

func contains(sorted []kernel.Entry, e kernel.Entry) bool {
	_, found := slices.BinarySearchFunc(sorted, e, kernel.Entry.Compare)
	return found
}

// put inserts an entry into a sorted slice.
func put(sorted *[]kernel.Entry, e kernel.Entry) {
	i, _ := slices.BinarySearchFunc(*sorted, e, kernel.Entry.Compare)
	*sorted = slices.Insert(*sorted, i, e)
}

// drop removes one occurrence of an entry from a sorted slice. It returns false
// if there is none.
func drop(sorted *[]kernel.Entry, e kernel.Entry) bool {
	i, found := slices.BinarySearchFunc(*sorted, e, kernel.Entry.Compare)
	if found {
		*sorted = slices.Delete(*sorted, i, i+1)
	}
	return found
}

// apply returns the patched state. It fails if the rules differ.
func (p *patch) apply() (kernel.State, bool) {
	s := p.state
	if len(p.gone)+len(p.fresh) > 0 {
		if s.Entries = p.state.Entries.With(p.gone, p.fresh); !p.keepsRules(s.Entries) {
			return kernel.State{}, false
		}
	}
	if len(p.fronts) > 0 {
		s.Reals = p.reals()
	}
	s.Policy.Cut = p.now.Cut()
	p.Mode.repeated = p.repeated
	return s, true
}

// keepsRules reports whether the sets of hairpins keep their capacity, and stay empty or not.
func (p *patch) keepsRules(entries kernel.Entries) bool {
	for _, f := range p.now.Config.Families() {
		name := p.config.Names.Set(f, kernel.LoopBack)
		before, now := p.state.Entries.Of(name).Len(), entries.Of(name).Len()
		if (now == 0) != (before == 0) || kernel.Capacity(now) != kernel.Capacity(before) {
			return false
		}
	}
	return true
}

// reals returns all real servers, with those of the patched fronts replaced.
func (p *patch) reals() kernel.Reals {
	kernel.SortFunc(p.fronts, func(a, b patchedFront) int { return a.key.Compare(b.key) })
	var gone, fresh []kernel.Real
	for _, f := range p.fronts {
		gone, fresh = append(gone, p.state.Reals.Of(f.key)...), append(fresh, f.reals...)
	}
	return p.state.Reals.With(gone, fresh)
}

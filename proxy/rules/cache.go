package rules

import (
	"reflect"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// Cache makes the States that the function State makes, by patching the last one where only endpoints of
// a few services have changed since: what else there is to a state does not depend on endpoints. Its zero
// is ready; one goroutine uses it. States that it gave are not changed.
type Cache struct {
	table  sources.Table
	node   kernel.Node
	config Config

	state    kernel.State
	listing  *listing       // of state: its fronts, and what is known of the node
	repeated []kernel.Entry // KUBE-LOOP-BACK's, once for each service port that asks for one besides the first; sorted
}

// State gives what the function State does.
func (c *Cache) State(t sources.Table, n kernel.Node, config Config) kernel.State {
	if c.listing != nil && reflect.DeepEqual(c.node, n) && reflect.DeepEqual(c.config, config) {
		if s, ok := c.patched(t); ok {
			c.table, c.state = t, s
			return s
		}
	}
	c.table, c.node, c.config = t, n, config
	c.state, c.listing = state(t, n, config)
	c.repeated = c.listing.repeated(c.loops())
	c.listing.backends, c.listing.loops, c.listing.found = nil, nil, nil // are in the state
	return c.state
}

// loops counts the entries of KUBE-LOOP-BACK.
func (c *Cache) loops() (n int) {
	for _, f := range c.config.families() {
		n += inSet(c.state.Entries, c.config.Names.Set(f, kernel.LoopBack))
	}
	return n
}

// fewServices is how large a part of the table may have changed for a patch to cost less than making the
// state anew: each service costs two binary searches and two listings of its own.
const fewServices = 8

// patched is the state of t, if t differs from the last table in what can be patched.
func (c *Cache) patched(t sources.Table) (kernel.State, bool) {
	changed, ok := sources.OnlyEndpoints(c.table, t)
	if !ok || len(changed) > len(t.Services)/fewServices {
		return kernel.State{}, false
	}
	p := patch{Cache: c, repeated: slices.Clone(c.repeated)}
	for _, i := range changed {
		if !p.service(i, &c.table.Services[i], &t.Services[i]) {
			return kernel.State{}, false
		}
	}
	return p.apply(t)
}

// patch is what the changed services have changed.
type patch struct {
	*Cache
	fronts []patchedFront
	// Entries of KUBE-LOOP-BACK, each sorted: Cache.repeated as it is to be, and those that nobody asks for
	// any more or nobody asked for before.
	repeated, gone, fresh []kernel.Entry
}

// patchedFront has other real servers than before.
type patchedFront struct {
	key   kernel.VirtualKey
	reals []kernel.Real
}

// service notes what is different for a service; false if it is more than real servers and loops.
func (p *patch) service(i int, was, is *sources.Service) bool {
	before, now := p.alone(was), p.alone(is)
	// A service with node ports alone is of its endpoints' families.
	if len(before.fronts) != len(now.fronts) {
		return false
	}
	for j, f := range now.fronts {
		if before.fronts[j].key != f.key || !p.owns(i, f.key) {
			return false
		}
		if !slices.Equal(before.backends[before.fronts[j].backends.from:before.fronts[j].backends.to], now.backends[f.backends.from:f.backends.to]) {
			p.fronts = append(p.fronts, patchedFront{f.key, now.realsOf(f, make([]kernel.Real, 0, f.backends.len()))})
		}
	}
	p.replace(before.loops, now.loops)
	return true
}

// alone is the listing of one service.
func (p *patch) alone(s *sources.Service) *listing {
	l := &listing{
		table: sources.Table{Services: []sources.Service{*s}}, node: p.listing.node, config: p.listing.config,
		host: p.listing.host, nodePorts: p.listing.nodePorts,
	}
	l.service(0)
	l.order()
	l.config.inLoopSets(l.loops)
	return l
}

// owns says whether a front is that service's and not another's, which had it first.
func (p *patch) owns(service int, key kernel.VirtualKey) bool {
	i, ok := slices.BinarySearchFunc(p.listing.fronts, key, func(f front, k kernel.VirtualKey) int { return f.key.Compare(k) })
	return ok && int(p.listing.fronts[i].service) == service
}

// replace takes a service's loops out and puts others in.
func (p *patch) replace(before, now []kernel.Entry) {
	if slices.Equal(before, now) {
		return
	}
	for _, e := range before {
		// Once less: what was there more than once stays.
		if !drop(&p.repeated, e) && !drop(&p.fresh, e) {
			put(&p.gone, e)
		}
	}
	for _, e := range now {
		switch {
		case drop(&p.gone, e):
		case has(p.fresh, e) || has(p.state.Entries, e):
			put(&p.repeated, e)
		default:
			put(&p.fresh, e)
		}
	}
}

func has(sorted []kernel.Entry, e kernel.Entry) bool {
	_, found := slices.BinarySearchFunc(sorted, e, kernel.Entry.Compare)
	return found
}

// put adds an entry to sorted ones.
func put(sorted *[]kernel.Entry, e kernel.Entry) {
	i, _ := slices.BinarySearchFunc(*sorted, e, kernel.Entry.Compare)
	*sorted = slices.Insert(*sorted, i, e)
}

// drop takes an entry out of sorted ones, once; false if it is not there.
func drop(sorted *[]kernel.Entry, e kernel.Entry) bool {
	i, found := slices.BinarySearchFunc(*sorted, e, kernel.Entry.Compare)
	if found {
		*sorted = slices.Delete(*sorted, i, i+1)
	}
	return found
}

// apply gives the state with the patch. It fails where the loops' set comes to another size, or becomes
// empty or not: then there are other rules.
func (p *patch) apply(t sources.Table) (kernel.State, bool) {
	s := p.state
	if len(p.gone)+len(p.fresh) > 0 {
		if !p.keepsRules() {
			return kernel.State{}, false
		}
		s.Entries = p.entries()
	}
	if len(p.fronts) > 0 {
		s.Reals = p.reals()
	}
	p.Cache.repeated = p.repeated
	// What the listing says of a service's endpoints is not looked at again.
	p.listing.table = t
	return s, true
}

// keepsRules says whether the sets of loops stay of one size, and empty or not.
func (p *patch) keepsRules() bool {
	for _, f := range p.config.families() {
		name := p.config.Names.Set(f, kernel.LoopBack)
		before := inSet(p.state.Entries, name)
		now := before + inSet(p.fresh, name) - inSet(p.gone, name)
		if (now == 0) != (before == 0) || kernel.Capacity(now) != kernel.Capacity(before) {
			return false
		}
	}
	return true
}

// inSet counts the entries of a set among sorted ones.
func inSet(sorted []kernel.Entry, name string) int {
	from, _ := slices.BinarySearchFunc(sorted, name, bySet)
	to, _ := slices.BinarySearchFunc(sorted[from:], name, afterSet)
	return to
}

// bySet finds the first entry of a set, afterSet the first of those after it.
func bySet(e kernel.Entry, name string) int {
	if e.Set < name {
		return -1
	}
	return 1
}

func afterSet(e kernel.Entry, name string) int {
	if e.Set <= name {
		return -1
	}
	return 1
}

// reals are all real servers, those of the patched fronts in the place of what they had.
func (p *patch) reals() []kernel.Real {
	slices.SortFunc(p.fronts, func(a, b patchedFront) int { return a.key.Compare(b.key) })
	more := 0
	for _, f := range p.fronts {
		more += len(f.reals)
	}
	old := p.state.Reals
	reals := make([]kernel.Real, 0, len(old)+more)
	for _, f := range p.fronts {
		from, _ := slices.BinarySearchFunc(old, f.key, func(r kernel.Real, k kernel.VirtualKey) int {
			if c := r.Key.Virtual.Compare(k); c != 0 {
				return c
			}
			return 1 // before the first of them
		})
		reals = append(reals, old[:from]...)
		for old = old[from:]; len(old) > 0 && old[0].Key.Virtual == f.key; {
			old = old[1:]
		}
		reals = append(reals, f.reals...)
	}
	return append(reals, old...)
}

// entries are all entries, without those that are gone and with the fresh ones.
func (p *patch) entries() []kernel.Entry {
	old, gone, fresh := p.state.Entries, p.gone, p.fresh
	entries := make([]kernel.Entry, 0, len(old)+len(fresh)-len(gone))
	for len(gone)+len(fresh) > 0 {
		var e kernel.Entry
		leaves := len(fresh) == 0 || len(gone) > 0 && gone[0].Compare(fresh[0]) < 0
		if leaves {
			e, gone = gone[0], gone[1:]
		} else {
			e, fresh = fresh[0], fresh[1:]
		}
		i, _ := slices.BinarySearchFunc(old, e, kernel.Entry.Compare)
		entries = append(entries, old[:i]...)
		if old = old[i:]; leaves {
			old = old[1:]
		} else {
			entries = append(entries, e)
		}
	}
	return append(entries, old...)
}

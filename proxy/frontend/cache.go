package frontend

import (
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// Cache returns what List returns. If only the endpoints of a few services
// changed since the last call, it lists these alone and shares the rest with the
// last Frontends. The zero value is ready; one goroutine uses it.
type Cache struct {
	last   *Frontends
	node   kernel.Node // as given, like config
	config Config
}

// List returns what the function List does. The Delta of t is from the table of
// the last call.
func (c *Cache) List(t sources.Merged, n kernel.Node, config Config) *Frontends {
	round := uint64(0)
	if c.last != nil {
		round = c.last.change.round + 1
		if c.node.Equal(n) && c.config.Equal(&config) {
			if f := c.last.with(t); f != nil {
				f.change.cache, f.change.round = c, round
				c.last = f
				return f
			}
		}
	}
	c.node, c.config = n, config
	c.last = List(t.Table, n, config)
	c.last.change = change{cache: c, round: round}
	return c.last
}

// change says how Frontends differ from the last ones of a Cache. It counts
// rounds instead of pointing to these, which would keep all of them in memory.
type change struct {
	cache    *Cache
	round    uint64
	patched  bool // the last ones have the same Fronts
	services []Changed
}

// Changed is a service whose endpoints changed.
type Changed struct {
	Service int   // index in Table.Services
	Fronts  []int // indexes in Fronts
}

// Since returns how f differs from last. ok is false if more changed than the
// endpoints of a few services, or if a Cache did not return one after the other.
// With ok, both have the same Fronts and the same Config.
func (f *Frontends) Since(last *Frontends) (changed []Changed, ok bool) {
	c := &f.change
	if !c.patched || c.cache != last.change.cache || c.round != last.change.round+1 {
		return nil, false
	}
	return c.services, true
}

// Same reports whether f is like last, the Frontends before it: nothing changed. It may be false for equal ones.
func (f *Frontends) Same(last *Frontends) bool {
	changed, ok := f.Since(last)
	return ok && len(changed) == 0
}

// fewServices limits the part of a table that is patched. Each changed service
// costs a binary search per front; beyond an eighth of the table, listing all is
// cheaper.
const fewServices = 8

// with returns the Frontends of t, or nil if t differs in more than the
// endpoints of a few services. A list of clients is more.
func (f *Frontends) with(t sources.Merged) *Frontends {
	changed := t.Delta.Changes
	more := func(c sources.Change) bool { return c.Service } // than endpoints
	if t.Delta.Lists || len(changed) > t.Services.Len()/fewServices || slices.ContainsFunc(changed, more) {
		return nil
	}
	now := *f
	now.Table, now.change = t.Table, change{patched: true}
	if len(changed) == 0 {
		return &now
	}
	now.services = slices.Clone(f.services)
	now.change.services = make([]Changed, 0, len(changed))
	cuts := false
	for _, c := range changed {
		if !now.replace(c.Is, f.Table.Services.At(c.Was), f.services) {
			return nil
		}
		cuts = cuts || f.services.at(c.Was).cuts || now.services.at(c.Is).cuts
	}
	if cuts {
		now.cut = now.allCut()
	}
	return &now
}

// replace lists service i again, which had this form among the last services. It returns
// false if its fronts could differ.
func (f *Frontends) replace(i int, was *sources.Service, services pages) bool {
	is := f.Table.Services.At(i)
	if !sameFamilies(was, is) || was.Forwarding(f.Config.Forward) != is.Forwarding(f.Config.Forward) {
		return false
	}
	l := lister{Frontends: f, families: f.Config.Families()}
	last, now := f.services.at(i), new(service)
	l.service(i, now)
	f.services.replace(i, now, services)
	c := Changed{Service: i, Fronts: make([]int, 0, len(l.fronts))}
	for _, x := range l.fronts {
		at, found := f.Find(x.Key)
		if !found || int(f.Fronts[at].Service) != i {
			return false // another service had the key first
		}
		if f.Fronts[at].slot == x.slot {
			c.Fronts = append(c.Fronts, at)
			f.backends += len(now.lists[x.slot].backends) - len(last.lists[x.slot].backends)
		}
	}
	f.change.services = append(f.change.services, c)
	return true
}

// sameFamilies reports whether a service has the same families with other
// endpoints. Only a service without VIPs takes them from its endpoints.
func sameFamilies(a, b *sources.Service) bool {
	return hasVIPs(a) || has(a, kernel.IPv4) == has(b, kernel.IPv4) && has(a, kernel.IPv6) == has(b, kernel.IPv6)
}

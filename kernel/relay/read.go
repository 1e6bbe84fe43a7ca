package relay

import (
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// Reading is the virtual servers at one moment, and their real servers.
type Reading struct {
	Virtuals []kernel.Virtual // sorted
	Reals    []kernel.Real    // sorted
	Conns    []kernel.Conns   // parallel to Reals
}

// Read reads everything.
func (r *Relay) Read() Reading {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all Reading
	for _, s := range r.sorted() {
		all.Virtuals = append(all.Virtuals, s.read(func(o kernel.Real, c kernel.Conns, _ bool) {
			all.Reals = append(all.Reals, o)
			all.Conns = append(all.Conns, c)
		}))
	}
	return all
}

// Has reports whether there is such a virtual server.
func (r *Relay) Has(k kernel.VirtualKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.services[k] != nil
}

// Reals reads the real servers of these virtual servers, and their connections, in the given order.
// A virtual server that does not exist has none.
func (r *Relay) Reals(virtuals []kernel.VirtualKey) (reals []kernel.Real, conns []kernel.Conns) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range virtuals {
		if s := r.services[k]; s != nil {
			s.read(func(o kernel.Real, c kernel.Conns, _ bool) {
				reals = append(reals, o)
				conns = append(conns, c)
			})
		}
	}
	return reals, conns
}

// sorted returns the virtual servers in their order. r.mu is held.
func (r *Relay) sorted() []*service {
	all := make([]*service, 0, len(r.services))
	for _, s := range r.services {
		all = append(all, s)
	}
	kernel.SortFunc(all, func(a, b *service) int { return a.key.Compare(b.key) })
	return all
}

func (s *service) read(each func(o kernel.Real, c kernel.Conns, full bool)) kernel.Virtual {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.templates.expire(s.r.limits.now(), s.timeout())
	for _, e := range s.endpoints {
		each(kernel.Real{Key: kernel.RealKey{Virtual: s.key, Addr: e.addr}, Weight: e.weight, Upper: e.upper, Lower: e.lower},
			kernel.Conns{Active: uint32(e.active.Load()), Inactive: uint32(e.inactive.Load()), Persist: uint32(e.persist)},
			e.full)
	}
	return s.virtual
}

// VerifyVirtuals reports whether the virtual servers are those known.
func (r *Relay) VerifyVirtuals(known *kernel.State) bool {
	return slices.Equal(r.Read().Virtuals, known.Virtuals)
}

// VerifyReals reports whether the known virtual servers selected by has have exactly the known real
// servers. Connections do not count.
func (r *Relay) VerifyReals(known *kernel.State, has func(kernel.VirtualKey) bool) bool {
	reals := known.Reals.Cursor()
	for _, v := range known.Virtuals {
		want := reals.Next(v.Key)
		if !has(v.Key) {
			continue
		}
		if have, _ := r.Reals([]kernel.VirtualKey{v.Key}); !slices.Equal(have, want) {
			return false
		}
	}
	return true
}

// QuickCheck reports whether there are as many virtual and real servers as known.
func (r *Relay) QuickCheck(known *kernel.State) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	reals := 0
	for _, s := range r.services {
		s.mu.Lock()
		reals += len(s.endpoints)
		s.mu.Unlock()
	}
	return len(r.services) == len(known.Virtuals) && reals == known.Reals.Len()
}

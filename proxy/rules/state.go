package rules

import (
	"cmp"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// State is what the kernel of node n must look like to serve table t in mode ipvs: sorted, without
// duplicates, and the same bytes for the same arguments.
func State(t sources.Table, n kernel.Node, c Config) kernel.State {
	s, _ := state(t, n, c)
	return s
}

func state(t sources.Table, n kernel.Node, c Config) (kernel.State, *listing) {
	n, c = c.on(n)
	l := newListing(t, n, c)
	for i := range t.Services {
		l.service(i)
	}
	l.order()

	s := kernel.State{
		Timeouts: c.Timeouts,
		Links:    []kernel.Link{{Name: c.Names.Device, Type: "dummy"}},
		Policy:   l.policy(),
	}
	s.Sysctls = sysctls(n, c, l.serves(kernel.IPv6))
	l.vips(&s)
	sets, entries, filled := l.sets()
	for _, f := range c.families() {
		s.Chains = append(s.Chains, (&scope{family: f, config: c, node: n, filled: filled}).chains(l)...)
	}
	s.Sort()
	// These are in order as they are made.
	s.Sets, s.Entries, s.Virtuals, s.Reals = sets, entries, l.virtuals(), l.reals()
	return s, l
}

// families are those the host has.
func (c Config) families() []kernel.Family {
	if c.IPv6 {
		return []kernel.Family{kernel.IPv4, kernel.IPv6}
	}
	return []kernel.Family{kernel.IPv4}
}

// virtuals are the virtual servers, one for each front.
func (l *listing) virtuals() []kernel.Virtual {
	virtuals := make([]kernel.Virtual, len(l.fronts))
	for i, f := range l.fronts {
		s := &l.table.Services[f.service]
		v := kernel.Virtual{
			Key:       f.key,
			Scheduler: l.scheduler(s),
			Netmask:   uint8(f.key.Family().Bits()),
		}
		if s.Affinity == sources.AffinityClientIP {
			v.Flags |= kernel.FlagPersistent
			v.Timeout = uint32(s.AffinityTimeout / time.Second)
		}
		v.Flags |= kernel.SchedulerFlags(v.Scheduler)
		virtuals[i] = v
	}
	return virtuals
}

// reals are the real servers, in the order of their virtual servers.
func (l *listing) reals() []kernel.Real {
	n := 0
	for _, f := range l.fronts {
		n += f.backends.len()
	}
	reals := make([]kernel.Real, 0, n)
	for _, f := range l.fronts {
		reals = l.realsOf(f, reals)
	}
	return reals
}

// realsOf appends the real servers of one front.
func (l *listing) realsOf(f front, reals []kernel.Real) []kernel.Real {
	quiesces := kernel.Quiesces(l.scheduler(&l.table.Services[f.service]))
	for _, b := range l.backends[f.backends.from:f.backends.to] {
		if b.weight == 0 && !quiesces {
			continue
		}
		reals = append(reals, kernel.Real{
			Key:     kernel.RealKey{Virtual: f.key, Addr: b.addr},
			Weight:  b.weight,
			Forward: kernel.Masquerade,
		})
	}
	return reals
}

// scheduler is a service's own, or the default.
func (l *listing) scheduler(s *sources.Service) string {
	return cmp.Or(s.Scheduler, l.config.Scheduler, "rr")
}

// policy is what the configuration and the services let Diff do.
func (l *listing) policy() kernel.Policy {
	p := kernel.Policy{
		Hold:          l.config.Hold,
		Probe:         l.config.ProbeVIPs,
		DeleteUnknown: l.config.DeleteUnknown,
		ExcludeCIDRs:  slices.Clone(l.config.ExcludeCIDRs),
		DrainTimeout:  l.config.DrainTimeout,
	}
	for _, f := range l.fronts {
		if d := l.table.Services[f.service].DrainTimeout; d != nil {
			p.Drains = append(p.Drains, kernel.VirtualDrain{Virtual: f.key, Timeout: *d})
		}
	}
	return p
}

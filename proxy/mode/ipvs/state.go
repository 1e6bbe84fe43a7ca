package ipvs

import (
	"net/netip"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
)

// state returns the state, and its writer, which has what patches need.
func state(f *frontend.Frontends, c mode.Config) (kernel.State, *writer) {
	s := kernel.State{
		Timeouts: c.Timeouts,
		Links:    []kernel.Link{{Name: c.Names.Device, Type: "dummy"}},
		Policy:   mode.Policy(f, c),
	}
	s.Sysctls = append(sysctls(f.Node), mode.Sysctls(f, c)...)
	s.Sysctls = append(s.Sysctls, shared(f, c)...)
	s.Daemons = c.Sync
	mode.AddVIPs(&s, f, c)
	w := &writer{f: f, config: c}
	sets, entries, filled := w.sets()
	for _, family := range f.Config.Families() {
		s.Chains = append(s.Chains, (&scope{mode.Scope{Frontends: f, Config: &c, Family: family}, filled}).chains()...)
	}
	s.Sort()
	// These are made in order.
	s.Sets, s.Entries, s.Virtuals, s.Reals = sets, entries, mode.Virtuals(f), kernel.RealsOf(allReals(f, c))
	return s, w
}

// writer writes the state of some frontends.
type writer struct {
	f        *frontend.Frontends
	config   mode.Config
	repeated []kernel.Entry            // see Mode
	disjoint map[served][]netip.Prefix // source ranges; nil before they are needed
}

// sysctls returns the kernel parameters that IPVS needs.
func sysctls(n kernel.Node) []kernel.Sysctl {
	s := []kernel.Sysctl{
		// Without vs.conntrack the kernel silently does not apply MASQUERADE to
		// packets that IPVS balanced.
		{Name: "net.ipv4.vs.conntrack", Value: "1"},
		// Without expire_nodest_conn a UDP flow to a removed real server is dropped
		// until it times out.
		{Name: "net.ipv4.vs.expire_nodest_conn", Value: "1"},
		// Without expire_quiescent_template persistence keeps sending a client to a
		// real server that drains.
		{Name: "net.ipv4.vs.expire_quiescent_template", Value: "1"},
	}
	// From 4.1 to 5.8 the default delays a client that reuses a port by a second.
	// Before, the parameter did not exist; since, the default is right.
	if !n.Release.Before(4, 1) && n.Release.Before(5, 9) {
		s = append(s, kernel.Sysctl{Name: "net.ipv4.vs.conn_reuse_mode", Value: "0"})
	}
	return s
}

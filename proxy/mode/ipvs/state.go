package ipvs

import (
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
)

// state returns the state with given entries of KUBE-LOOP-BACK, which are sorted.
func state(f *frontend.Frontends, c mode.Config, loops []kernel.Entry) kernel.State {
	s := kernel.State{
		Timeouts: c.Timeouts,
		Links:    []kernel.Link{{Name: c.Names.Device, Type: "dummy"}},
		Policy:   mode.Policy(f, c),
	}
	s.Sysctls = append(sysctls(f.Node), mode.Sysctls(c, f.Serves(kernel.IPv6))...)
	mode.AddVIPs(&s, f, c)
	w := &writer{f: f, config: c, loops: loops}
	sets, entries, filled := w.sets()
	for _, family := range f.Config.Families() {
		s.Chains = append(s.Chains, (&scope{writer: w, family: family, filled: filled}).chains()...)
	}
	s.Sort()
	// These are made in order.
	s.Sets, s.Entries, s.Virtuals, s.Reals = sets, entries, virtuals(f), reals(f)
	return s
}

// writer writes the state of some frontends.
type writer struct {
	f      *frontend.Frontends
	config mode.Config
	loops  []kernel.Entry
}

// virtuals returns one virtual server for each front.
func virtuals(f *frontend.Frontends) []kernel.Virtual {
	virtuals := make([]kernel.Virtual, len(f.Fronts))
	for i := range f.Fronts {
		x := &f.Fronts[i]
		v := kernel.Virtual{
			Key:       x.Key,
			Scheduler: f.Scheduler(x),
			Netmask:   uint8(x.Key.Family().Bits()),
		}
		if s := f.Service(x); s.Affinity == sources.AffinityClientIP {
			v.Flags |= kernel.FlagPersistent
			v.Timeout = uint32(s.AffinityTimeout / time.Second)
		}
		v.Flags |= kernel.SchedulerFlags(v.Scheduler)
		virtuals[i] = v
	}
	return virtuals
}

// reals returns the real servers in the order of their virtual servers.
func reals(f *frontend.Frontends) []kernel.Real {
	n := 0
	for i := range f.Fronts {
		n += len(f.Backends(&f.Fronts[i]))
	}
	reals := make([]kernel.Real, 0, n)
	for i := range f.Fronts {
		reals = appendReals(reals, f, &f.Fronts[i])
	}
	return reals
}

// appendReals appends the real servers of one front.
func appendReals(reals []kernel.Real, f *frontend.Frontends, x *frontend.Front) []kernel.Real {
	for _, b := range f.Backends(x) {
		reals = append(reals, kernel.Real{
			Key:     kernel.RealKey{Virtual: x.Key, Addr: f.Addr(int(x.Service), b)},
			Weight:  f.Weight(int(x.Service), b),
			Forward: kernel.Masquerade,
		})
	}
	return reals
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

// Package userspace is mode userspace: svcproxy itself relays connections, with sockets alone. It is for a
// machine whose kernel has neither IPVS nor iptables, and slower than both.
//
// The state has the virtual and real servers of mode ipvs; package kernel/relay carries them out. So drains, affinity,
// weights and counters are the same. What only rules could do is missing:
//
//   - Endpoints see this node as the client. Neither a policy of Local nor masqueradeAll changes that.
//   - Source ranges cannot be held, since anybody may connect to a socket. A port that has some is not served.
//   - SCTP is not served.
//   - A port of a VIP that no service has is the host's own.
//   - A port of a service on which another program listens, at all addresses, needs a portal: the relay listens
//     on another port of the VIP, one of portRange, and rules redirect packets there. Without iptables it is not
//     served. It stays a portal until the service goes, even if the program ends. Node ports are served in the
//     same way.
//   - A restart of svcproxy ends all connections. Under systemd none is refused: see package daemon.
//   - A change from mode iptables ends connections, too, if no rule is left that needs connection tracking: the
//     kernel then tracks no more, and translates no more. IPVS loses its connections with its virtual servers.
package userspace

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
)

// Mode is mode userspace.
type Mode struct{}

var _ mode.Mode = Mode{}

// Name returns "userspace".
func (Mode) Name() string { return mode.Userspace }

// Needs returns nothing: a kernel that has addresses and sockets will do.
func (Mode) Needs() []kernel.Adapter { return []kernel.Adapter{} }

// Trial returns nothing: there are no rules.
func (Mode) Trial(kernel.Names) []kernel.Chain { return nil }

// Extras returns nothing.
func (Mode) Extras(kernel.Names) []mode.Extra { return nil }

// Periods returns those of iptables.syncPeriod and iptables.minSyncPeriod, as kube-proxy's
// userspace mode did.
func (Mode) Periods(c mode.Config) mode.Periods { return c.IPTables }

// Sysctls returns the kernel parameters that State may contain.
func (Mode) Sysctls() []string { return mode.ARPSysctls }

// State returns what the relay and the kernel must look like to serve f.
func (m Mode) State(f *frontend.Frontends, c mode.Config) kernel.State {
	s := kernel.State{Policy: mode.Policy(f, c), Sysctls: mode.ARP(c)}
	if c.NoDevice {
		c.VIPBinding = mode.BindRoute
	} else {
		s.Links = []kernel.Link{{Name: c.Names.Device, Type: "dummy"}}
	}
	mode.AddVIPs(&s, f, c)
	var reals []kernel.Real
	for i := range f.Fronts {
		x := &f.Fronts[i]
		if m.WhyNot(x) != "" {
			continue
		}
		v := mode.Virtual(f, x)
		v.Scheduler, _ = Nearest(v.Scheduler)
		v.Flags = flags(v.Flags, f.Service(x))
		s.Virtuals = append(s.Virtuals, v)
		reals = mode.AppendReals(reals, f, x)
	}
	s.Reals = kernel.RealsOf(reals)
	s.Chains = portalChains(f, &c)
	s.Sort()
	unbind(&s)
	return s
}

// flags leaves those of the flags that the relay has. A client's connections are spread only where the service says so:
// the relay's choice by client never refuses one, and stays the same when endpoints change.
func flags(all uint32, s *sources.Service) uint32 {
	if s.SchedulerFlags&sources.FlagPort != 0 {
		return all & (kernel.FlagPersistent | kernel.FlagSched2)
	}
	return all & kernel.FlagPersistent
}

// unbind leaves out the VIPs on which nothing is served: bound, their ports would be the host's own.
func unbind(s *kernel.State) {
	served := make(map[netip.Addr]bool, len(s.Virtuals))
	for i := range s.Virtuals {
		served[s.Virtuals[i].Key.Addr] = true
	}
	s.Addrs = slices.DeleteFunc(s.Addrs, func(a kernel.Addr) bool { return !served[a.Addr] })
	s.Routes = slices.DeleteFunc(s.Routes, func(r kernel.Route) bool { return !served[r.Addr] })
	s.Neighbors = slices.DeleteFunc(s.Neighbors, func(n kernel.Neighbor) bool { return !served[n.Addr] })
	s.Policy.Claims = slices.DeleteFunc(s.Policy.Claims, func(c kernel.Claim) bool { return !served[c.Addr] })
}

// WhyNot returns why the relay cannot serve a front; "" if it can.
func (Mode) WhyNot(x *frontend.Front) string {
	switch {
	case x.Key.Proto == kernel.SCTP:
		return "the relay has no SCTP"
	case x.Traits.Has(frontend.Restricted):
		return "the relay cannot hold its source ranges"
	}
	return ""
}

// Doubts says what of some frontends is not served in this mode, or otherwise than configured, a line each.
func (m Mode) Doubts(f *frontend.Frontends, _ mode.Config) (lines []string) {
	lines = mode.NoForward(f, mode.Userspace)
	last := int32(-1)
	for i := range f.Fronts {
		x := &f.Fronts[i]
		s := f.Service(x)
		if why := m.WhyNot(x); why != "" {
			lines = append(lines, fmt.Sprintf("%s: %s/%s is not served in mode userspace: %s", s.DisplayName(), x.Key.AddrPort(),
				x.Key.Proto, why))
			continue
		}
		if to, same := Nearest(f.Scheduler(x)); !same && x.Service != last {
			last = x.Service
			lines = append(lines, fmt.Sprintf("%s: mode userspace has no scheduler %s and uses %s", s.DisplayName(),
				f.Scheduler(x), to))
		}
	}
	return lines
}

// nearest are the schedulers of IPVS that the relay lacks, and what comes closest.
var nearest = map[string]string{
	"mh": "sh",                              // by client, and a change of an endpoint moves few clients
	"dh": "rr", "lblc": "lc", "lblcr": "lc", // by destination, of which a virtual server has one
	"sed": "wlc", "nq": "wlc",
	"fo": "wrr", "ovf": "wrr",
}

// Nearest returns the scheduler to use for one of IPVS's, and whether it is the same one. For a scheduler that is not
// known it is wrr.
func Nearest(name string) (string, bool) {
	if slices.Contains(kernel.RelaySchedulers, name) {
		return name, true
	}
	if near, ok := nearest[name]; ok {
		return near, false
	}
	return "wrr", false
}

package sources

import (
	"fmt"
	"net/netip"
	"slices"
)

// Listener is a socket of the host that takes connections or datagrams. A service at its address and port would get
// them instead.
type Listener struct {
	Addr     netip.Addr // unspecified: all addresses of its family
	V6Only   bool       // Addr is "::" and does not take IPv4
	Port     uint16
	Protocol Protocol
	Program  string // for people: "sshd (pid 812)"
}

// At reports whether the socket gets what is sent to one of its host's addresses.
func (l *Listener) At(a netip.Addr) bool {
	switch {
	case !l.Addr.IsUnspecified():
		return l.Addr == a
	case l.Addr.Is4():
		return a.Is4()
	}
	return a.Is6() || !l.V6Only
}

// Displaced is a program of the host that gets no new connections, since a service is served where it listens.
type Displaced struct {
	Claim
	Service, Program string // as people know them
}

// hostPort is a port of the host, whatever the address.
type hostPort struct {
	port     uint16
	protocol Protocol
}

// hostPorts returns the ports that the services of some tables ask for at the node's own addresses.
func (h *HostFacts) hostPorts(tables []Table) map[hostPort]bool {
	ports := map[hostPort]bool{}
	for _, t := range tables {
		for i := range t.Services.Len() {
			for a := range t.Services.At(i).Addresses {
				if h.onHost(&a) {
					ports[hostPort{a.Port, a.Protocol}] = true
				}
			}
		}
	}
	return ports
}

// onHost reports whether an address of a service is the node's own, so that programs of the host may listen there.
// The port of a health check is svcproxy's.
func (h *HostFacts) onHost(a *Address) bool {
	return a.Kind == KindNodePort || a.Addr.IsValid() && a.Kind != KindMark && h.owns(a.Addr)
}

// nodePortAt reports whether node ports are served at an address of the node.
func (h *HostFacts) nodePortAt(a netip.Addr) bool {
	if a.IsLoopback() {
		return h.NodePorts.Loopback && a.Is4()
	}
	if h.NodePorts.Primary != nil {
		return slices.Contains(h.NodePorts.Primary, a)
	}
	ofFamily := false
	for _, p := range h.NodePorts.CIDRs {
		if p.Contains(a) {
			return true
		}
		ofFamily = ofFamily || p.Addr().Is4() == a.Is4()
	}
	return !ofFamily
}

// meets reports whether a socket gets what is sent to an address of a service.
func (h *HostFacts) meets(l *Listener, a *Address) bool {
	if l.Port != a.Port || l.Protocol != a.Protocol {
		return false
	}
	if a.Kind != KindNodePort {
		return l.At(a.Addr)
	}
	if !l.Addr.IsUnspecified() {
		return h.owns(l.Addr) && h.nodePortAt(l.Addr) || l.Addr.IsLoopback() && h.nodePortAt(l.Addr)
	}
	return slices.ContainsFunc(h.Addrs, func(own netip.Addr) bool { return h.nodePortAt(own) && l.At(own) })
}

// listener returns the program of this host that listens where a service asks to be served. An endpoint of the service
// that is the program itself does not count: it was put behind the service.
func (h *HostFacts) listener(s *Service, a *Address) (*Listener, bool) {
	if !h.onHost(a) {
		return nil, false
	}
	for i := range h.Listeners {
		l := &h.Listeners[i]
		if h.meets(l, a) && !slices.ContainsFunc(s.Endpoints, func(e Endpoint) bool { return h.isProgram(&e, l) }) {
			return l, true
		}
	}
	return nil, false
}

// isProgram reports whether an endpoint leads to a socket of this host.
func (h *HostFacts) isProgram(e *Endpoint, l *Listener) bool {
	return h.owns(e.Addr) && l.At(e.Addr) && slices.ContainsFunc(e.Ports, func(p EndpointPort) bool {
		return p.Port == l.Port && p.Protocol == l.Protocol
	})
}

// own returns the listener of svcproxy itself where a service asks to be served.
func (h *HostFacts) own(a *Address) (*Listener, bool) {
	if !h.onHost(a) {
		return nil, false
	}
	i := slices.IndexFunc(h.Own, func(l Listener) bool { return h.meets(&l, a) })
	if i < 0 {
		return nil, false
	}
	return &h.Own[i], true
}

// listeners withholds what would take connections from programs of this host: the ports of svcproxy itself from every
// service, and those of other programs from a service of a file, unless they are served already or the service has
// TakeHostPorts. What is served where a program listens is a doubt.
func (v *verdict) listeners(host HostFacts, served func(Claim) bool, tables []Table) {
	own := host // as seen by VIPs: which of two services has a node port is decided already
	own.Own = slices.Clone(host.Own)
	for i, t := range tables {
		v.checkPorts(&own, i, t)
		if len(own.Own)+len(host.Listeners) == 0 {
			continue
		}
		for j := range t.Services.Len() {
			s := t.Services.At(j)
			for a := range s.Addresses {
				h := &own
				if !a.Claim().Addr.IsValid() {
					h = &host
				}
				switch text, withheld := h.listens(s, &a, served); {
				case withheld:
					v.withhold(place{i, j}, Withheld{a.Claim(), text})
					v.awaits = true
				case text != "":
					v.doubts = append(v.doubts, problem(s, "%s", text))
					l, _ := host.listener(s, &a)
					v.displaced = append(v.displaced, Displaced{a.Claim(), s.DisplayName(), l.Program})
				}
			}
		}
	}
}

// listens returns what there is to say about an address of a service where a program listens, "" if none does or the
// service may take its port, and whether the address is withheld.
func (h *HostFacts) listens(s *Service, a *Address, served func(Claim) bool) (text string, withheld bool) {
	if l, found := h.own(a); found {
		return fmt.Sprintf("%s is a port of svcproxy itself: %s", a.Claim(), l.Program), true
	}
	if s.TakeHostPorts || len(h.Listeners) == 0 {
		return "", false
	}
	l, found := h.listener(s, a)
	if !found {
		return "", false
	}
	if s.Origin.Source == APIServer || s.Origin.Source == Manifest || served(a.Claim()) {
		return fmt.Sprintf("%s listens on %s of this host too, and gets no new connections", l.Program, a.Claim()), false
	}
	return fmt.Sprintf("%s listens on %s of this host, and would get no new connections: stop it, or set takeHostPorts "+
		"= true",
		l.Program, a.Claim()), true
}

// serving reports whether the kernel served a claim for an earlier run.
func (h *HostFacts) serving(c Claim) bool {
	_, found := slices.BinarySearchFunc(h.Serving, c, Claim.Compare)
	return found
}

// checkPorts adds the health check node ports of a table that nothing is withheld of to the ports where svcproxy
// listens.
func (v *verdict) checkPorts(h *HostFacts, i int, t Table) {
	for j, s := range t.Services.All() {
		check := Claim{Port: s.HealthCheckNodePort, Protocol: TCP}
		o := v.of[place{i, j}]
		if !s.HealthChecked() || o.out || slices.ContainsFunc(o.withheld, func(w Withheld) bool { return w.Claim == check }) {
			continue
		}
		for _, any := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
			h.Own = append(h.Own, Listener{Addr: any, V6Only: true, Port: check.Port, Protocol: TCP,
				Program: "healthCheckNodePort of " + s.DisplayName()})
		}
	}
}

// served returns what was served before the merge: in the last merged table, or at the first merge in the kernel.
func (m *Merger) served(host *HostFacts) func(Claim) bool {
	if !m.ran {
		return host.serving
	}
	var had map[Claim]bool
	return func(c Claim) bool {
		if had == nil {
			had = map[Claim]bool{}
			for _, s := range m.merged.Services.All() {
				for a := range s.Addresses {
					if !s.Withholds(a) { // also a VIP that the node did not have then
						had[a.Claim()] = true
					}
				}
			}
		}
		return had[c]
	}
}

// Wants reports whether a service of some tables asks for a port at the node's own addresses. The tables are those of
// the next Merge.
func (m *Merger) Wants(host HostFacts, tables []Table) func(port uint16, protocol Protocol) bool {
	current := m.ran && m.ports != nil && equal(m.portsOf, host.Addrs) && !m.Moves(tables)
	if !current {
		m.ports, m.portsOf = host.hostPorts(tables), host.Addrs
	}
	return func(port uint16, protocol Protocol) bool { return m.ports[hostPort{port, protocol}] }
}

// AsksForMore reports whether services of tables ask for a port at the node's own addresses that none asked for at the
// last call. The tables are those of the next Merge.
func (m *Merger) AsksForMore(host HostFacts, tables []Table) bool {
	if m.ran && !m.Moves(tables) {
		return false
	}
	m.Wants(host, tables)
	before := m.asked
	m.asked = m.ports
	for port := range m.ports {
		if !before[port] {
			return true
		}
	}
	return false
}

// Moves reports whether more than endpoints differ in tables from those of the last Merge.
func (m *Merger) Moves(tables []Table) bool {
	deltas := m.compare(tables)
	return deltas == nil || slices.ContainsFunc(deltas, func(d Delta) bool { return !d.OnlyEndpoints() })
}

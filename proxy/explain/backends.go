package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/packet"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// virtual names the service and the virtual server.
func (x *explainer) virtual() {
	of := ""
	if s := x.service(x.front); s != nil {
		x.a.Service = s.DisplayName()
		of = " of service " + x.a.Service
	}
	i, found := kernel.FindVirtual(x.Kernel.Virtuals, x.key)
	switch {
	case found && !x.served():
		x.step(stageVirtual, "%s%s, by rules of nat; %s keeps the connections it has", x.key, of, x.Kernel.Virtuals[i])
	case found:
		v := x.Kernel.Virtuals[i]
		x.a.Virtual = v.String()
		foreign := ""
		if !x.owned() {
			foreign = ", which another program made"
			x.foreign = x.front != nil
		}
		x.step(stageVirtual, "%s%s%s", v, of, foreign)
		x.a.Steps[len(x.a.Steps)-1].Wrong = x.foreign
		if v.Flags&kernel.FlagPersistent != 0 {
			x.step(stageVirtual, "%s for %d s", stays(v), v.Timeout)
		}
		if x.onePacket = v.Flags&kernel.FlagOnePacket != 0; x.onePacket {
			x.step(stageVirtual, "each datagram is balanced alone")
		}
	case x.verdict.Virtual.Proto != 0:
		x.step(stageVirtual, "%s%s, by rules of nat", x.key, of)
	case x.front != nil && len(x.Kernel.Virtuals) == 0 && x.closed():
		x.wrong(stageVirtual, "%s%s: no backend that gets new connections", x.key, of)
	case x.front != nil && x.verdict.Fate != packet.Dropped:
		x.wrong(stageVirtual, "the kernel has nothing at %s%s: svcproxy plan shows what is missing", x.key, of)
	case x.front != nil:
		x.step(stageVirtual, "%s%s", x.key, of)
	default:
		x.step(stageVirtual, "no virtual server at %s", x.key)
	}
}

// stays says which clients stay with a backend.
func stays(v kernel.Virtual) string {
	if bits := v.Key.Family().Bits(); int(v.Netmask) < bits {
		return fmt.Sprintf("all clients of a /%d stay with one backend", v.Netmask)
	}
	return "a client stays with its backend"
}

// owned reports whether the virtual server of the packet is ours.
func (x *explainer) owned() bool {
	e := kernel.Entry{Set: x.Kernel.Names.Set(x.key.Family(), kernel.VirtualServer), Addr: x.key.Addr, Proto: x.key.Proto,
		Port: x.key.Port}
	return x.Kernel.Entries.Has(e)
}

// backends lists the real servers of the virtual server, or in mode iptables those that
// rules choose from, and the endpoints that are neither.
func (x *explainer) backends() {
	if x.served() {
		x.reals()
	} else {
		for _, w := range x.verdict.Ways {
			chance := w.Chance
			x.a.Backends = append(x.a.Backends, Backend{Address: w.Real, Weight: w.Weight, Share: &chance, Usable: true,
				byRules: true})
		}
	}
	for i := range x.a.Backends {
		b := &x.a.Backends[i]
		health := x.Health[Endpoint{x.key.Proto, b.Address}]
		b.Health, b.up, b.down = health.Text, health.Up, health.Down
		b.Name = x.nameOf(b.Address)
		x.way(b)
		b.hears(health.Silent)
		x.step(stageBackend, "%s", b.text())
		x.a.Steps[len(x.a.Steps)-1].Wrong = b.Lost != ""
	}
	x.unused()
}

// nameOf returns the DNS name of an endpoint of the service; "" if it has none.
func (x *explainer) nameOf(addr netip.AddrPort) string {
	s := x.service(x.front)
	if s == nil {
		return ""
	}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if port, ok := s.PortOf(e, int(x.front.Port)); ok && addr == netip.AddrPortFrom(e.Addr, port) {
			return e.Name.Text()
		}
	}
	return ""
}

func (x *explainer) reals() {
	at, _ := kernel.FindVirtual(x.Kernel.Virtuals, x.key)
	var all []kernel.Real
	for i, r := range x.Kernel.Reals.All() {
		if r.Key.Virtual != x.key {
			continue
		}
		all = append(all, r)
		b := Backend{Address: r.Key.Addr, Weight: r.Weight, Usable: r.Weight > 0}
		if i < len(x.Kernel.Conns) {
			b.Active, b.Inactive = x.Kernel.Conns[i].Active, x.Kernel.Conns[i].Inactive
		}
		b.limit(r.Upper)
		x.a.Backends = append(x.a.Backends, b)
	}
	v := x.Kernel.Virtuals[at]
	if v.Flags&kernel.FlagPersistent == 0 && x.allFull() && x.verdict.Fate == packet.Balanced && !x.p.Established {
		x.end(Refused, fmt.Sprintf("refused because all backends are at maxConnections (%s)",
			sources.Few(addresses(x.a.Backends), 3)))
		return
	}
	for i, share := range shares(v.Scheduler, open(all, x.a.Backends)) {
		x.a.Backends[i].Share, x.a.Backends[i].byVIP = share, v.Scheduler == "dh"
	}
	if x.verdict.Fate != packet.Balanced {
		return // it does not get to the scheduler
	}
	if to, ok := x.chosen(v, all); ok {
		x.choose(v, to)
	}
}

// limit notes how many connections a backend may have. Full by fewer, because it had so many, is not known.
func (b *Backend) limit(most uint32) {
	b.Max, b.Full = most, most > 0 && b.Active+b.Inactive >= most
	b.Usable = b.Usable && !b.Full
}

// open returns real servers with weight 0 for those that are full: schedulers pass over both.
func open(all []kernel.Real, backends []Backend) []kernel.Real {
	all = slices.Clone(all)
	for i := range all {
		if backends[i].Full {
			all[i].Weight = 0
		}
	}
	return all
}

// allFull reports whether connections would be accepted if no backend were at its limit.
func (x *explainer) allFull() bool {
	return slices.ContainsFunc(x.a.Backends, func(b Backend) bool { return b.Full && b.Weight > 0 }) &&
		!slices.ContainsFunc(x.a.Backends, func(b Backend) bool { return b.Usable })
}

// choose notes the only backend that the packet goes to, zero for none.
func (x *explainer) choose(v kernel.Virtual, to netip.AddrPort) {
	if !to.IsValid() {
		x.end(Refused, fmt.Sprintf("refused because scheduler %s sends it to a backend of weight 0 alone", v.Scheduler))
		return
	}
	x.only = to
	for i := range x.a.Backends {
		b := &x.a.Backends[i]
		b.Chosen, b.Share, b.scheduler = b.Address == to, new(float64), v.Scheduler
		if b.Chosen {
			*b.Share = 1
		}
	}
}

// gets reports whether a backend may get the packet.
func (x *explainer) gets(b *Backend) bool {
	return b.Usable && (!x.only.IsValid() || b.Chosen)
}

// way adds what the tracer and the routes say of the packet's way to a backend.
func (x *explainer) way(b *Backend) {
	at := slices.IndexFunc(x.verdict.Ways, func(w packet.Way) bool { return w.Real == b.Address })
	if at >= 0 {
		w := x.verdict.Ways[at]
		b.followed = true
		b.Masqueraded = w.Masquerade == packet.ByMark || w.Masquerade == packet.Hairpin
		b.Forward, b.there = methods[w.Forward], known{w.Mark, x.p.State, x.hidden}
		if x.p.State != "" {
			b.back.hidden = packet.Tracking
		}
		if w.Fate != packet.Balanced {
			b.Lost = "the packet is " + w.Fate.String() + " on its way"
		}
	}
	h, ok := x.hop(kernel.Path{Dst: b.Address.Addr()})
	if ok && h.Kind == kernel.Unicast && x.p.In != "" && !x.served() {
		h = x.sentOnBy(b, h)
	}
	switch {
	case !ok:
		return
	case h.Kind == kernel.LocalRoute:
		b.Link = "lo"
		return
	case h.Kind != kernel.Unicast:
		b.Lost = cmp.Or(b.Lost, fmt.Sprintf("this node has no route to %s (%s)", b.Address.Addr(), h.Kind))
		return
	}
	b.Link, b.Gateway, b.Neighbor = h.Link, h.Gateway, h.Neighbor
	if b.Masqueraded {
		b.Source = h.Source
	}
	if h.Neighbor == "failed" || h.Neighbor == "incomplete" {
		next := b.Address.Addr()
		if h.Gateway.IsValid() {
			next = h.Gateway
		}
		b.Lost = fmt.Sprintf("%s did not answer on %s when it was last asked for", next, h.Link)
	}
}

// sentOnBy is the way to a backend of a packet that rules of nat send on: it is routed as one that came in, and
// forwarded only if its link is. IPVS sends packets as the node's own, without a source.
func (x *explainer) sentOnBy(b *Backend, own kernel.Hop) kernel.Hop {
	src, dst := x.p.Src.Addr(), b.Address.Addr()
	if name := x.notForwarding(dst, x.p.In); name != "" {
		b.Lost = name + " is 0: this node sends no packet of a client on"
		return own
	}
	h, ok := x.hop(kernel.Path{Src: src, Dst: dst, In: x.p.In, Mark: b.there.mark})
	switch {
	case !ok || h.Kind == kernel.Forged: // the step about the arrival says so
		return own
	case h.Kind != kernel.Unicast && h.Kind != kernel.LocalRoute:
		b.Lost = fmt.Sprintf("this node has no route from %s by %s to %s (%s)", src, x.p.In, dst, h.Kind)
	}
	h.Source = own.Source
	return h
}

// methods are the forwarding methods that leave a packet as it is.
var methods = map[kernel.Forward]string{kernel.Direct: "direct", kernel.Tunnel: "tunnel"}

// hears notes that nothing comes back from a backend to its clients. What is masqueraded may be answered nevertheless:
// the replies need no way but the one to this node.
func (b *Backend) hears(silent string) {
	switch {
	case b.Forward != "":
	case b.Masqueraded:
		b.silent = silent
	default:
		b.Lost = cmp.Or(b.Lost, silent)
	}
}

// text is the backend in one line.
func (b *Backend) text() string {
	var parts []string
	switch {
	case b.Full && b.Weight > 0:
		parts = append(parts, fmt.Sprintf("weight %d, full: no new connections", b.Weight))
	case !b.Usable:
		parts = append(parts, "weight 0: no new connections")
	case b.Chosen:
		parts = append(parts, fmt.Sprintf("weight %d, chosen by %s for this client", b.Weight, b.scheduler))
	case b.scheduler != "":
		parts = append(parts, fmt.Sprintf("weight %d, for other clients by %s", b.Weight, b.scheduler))
	case b.byVIP:
		parts = append(parts, fmt.Sprintf("weight %d, one backend gets all connections to the VIP (dh)", b.Weight))
	case b.Share == nil:
		parts = append(parts, fmt.Sprintf("weight %d, gets new connections by their number", b.Weight))
	case b.byRules:
		parts = append(parts, fmt.Sprintf("gets %.3g %% of new connections", 100**b.Share))
	default:
		parts = append(parts, fmt.Sprintf("weight %d, gets %.3g %% of new connections", b.Weight, 100**b.Share))
	}
	if b.Active+b.Inactive > 0 {
		parts = append(parts, fmt.Sprintf("%d active and %d inactive connections", b.Active, b.Inactive))
	}
	if b.Max > 0 {
		parts = append(parts, fmt.Sprintf("at most %d", b.Max))
	}
	switch {
	case b.Link == "lo":
		parts = append(parts, "on this node")
	case b.Link != "":
		way := "by " + b.Link
		if b.Gateway.IsValid() {
			way += " over " + b.Gateway.String()
		}
		if b.Neighbor != "" {
			way += ", neighbour " + b.Neighbor
		}
		parts = append(parts, way)
	}
	if b.followed {
		parts = append(parts, b.sourceText())
	}
	if b.Health != "" {
		parts = append(parts, b.Health)
	}
	if b.Lost != "" {
		parts = append(parts, b.Lost)
	}
	return sources.Place(b.Name, b.Address.String()) + ": " + strings.Join(parts, "; ")
}

func (b *Backend) sourceText() string {
	switch {
	case b.Source.IsValid():
		return "masqueraded as " + b.Source.String()
	case b.Masqueraded:
		return "masqueraded"
	case b.Forward != "":
		return b.Forward + ", the packet unchanged"
	}
	return "source kept"
}

// unused names the endpoints of the service's port that are no backends here.
func (x *explainer) unused() {
	if x.front == nil {
		return
	}
	for _, t := range x.Fronts.Targets(int(x.front.Service)) {
		if t.Port != int(x.front.Port) || kernel.FamilyOf(t.Addr.Addr()) != x.key.Family() ||
			slices.ContainsFunc(x.a.Backends, func(b Backend) bool { return b.Address == t.Addr }) {
			continue
		}
		switch health := x.takenOut(&t); {
		case health != "":
			x.step(stageBackend, "%s: none, %s", sources.Place(x.nameOf(t.Addr), t.Addr.String()), health)
		case t.Reason != frontend.Used:
			x.step(stageBackend, "%s: none, %s", sources.Place(x.nameOf(t.Addr), t.Addr.String()), t.Reason)
		}
	}
}

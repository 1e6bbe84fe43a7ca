package packet

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// Trace says what happens to packet p on node n with kernel state s, which must be
// sorted. An error is about the packet, or about something in the state that is not
// understood.
func Trace(s kernel.State, n kernel.Node, p Packet) (Verdict, error) {
	t := &tracer{Node: &Node{State: &s, Facts: n}}
	var all []Verdict
	for t.start() {
		if all != nil {
			t.step(orElse)
		}
		v, err := t.packet(p)
		if err != nil {
			return Verdict{Steps: t.steps}, fmt.Errorf("tracing %s: %w", p, err)
		}
		all = append(all, v)
	}
	v := joined(all)
	v.Steps = t.steps
	return v, nil
}

// orElse is the step between two paths.
const orElse = "or, by another draw:"

// tracer is the path of one packet so far.
type tracer struct {
	*Node
	steps []string
	draws
}

// flight is a packet on its path.
type flight struct {
	View
	masquerade Masquerade
	marked     uint32 // its mark at the last filter
}

func (t *tracer) step(format string, args ...any) {
	t.steps = append(t.steps, fmt.Sprintf(format, args...))
}

func (t *tracer) packet(p Packet) (Verdict, error) {
	if err := p.check(); err != nil {
		return Verdict{}, err
	}
	f := &flight{View: View{Packet: p, Unknown: Out, Node: t.Node, draw: t.draw}}
	follow := t.received
	if p.In == "" {
		follow = t.sent
	}
	v, err := follow(f)
	if err == nil && f.translated.Proto != 0 {
		v = t.arrived(f, v.Fate)
	}
	return v, err
}

// arrived is the verdict on a packet that a rule of nat has sent to a real server.
func (t *tracer) arrived(f *flight, fate Fate) Verdict {
	if fate == Forwarded || fate == Host {
		fate = Balanced
	}
	if f.Src.Addr().IsLoopback() && fate == Balanced && f.masquerade == Kept && !t.local(f.Dst.Addr()) {
		t.step("%s drops what comes from %s", f.Dst.Addr(), f.Src.Addr())
		fate = Dropped
	}
	if f.Established {
		f.masquerade = AsBefore
	}
	w := Way{Real: f.Dst, Weight: 1, Fate: fate, Masquerade: f.masquerade, Chance: t.chance, Mark: f.marked}
	return Verdict{Fate: fate, Virtual: f.translated, Ways: []Way{w}}
}

// received follows a packet that comes in by a device.
func (t *tracer) received(f *flight) (Verdict, error) {
	for _, table := range []string{"raw", "nat"} {
		if fate, err := t.hook(table, "PREROUTING", f); fate != passed || err != nil {
			return Verdict{Fate: fate}, err
		}
	}
	if t.martian(f) {
		t.step("routing: %s -> %s comes in by %s, which the kernel drops as forged", f.Src.Addr(), f.Dst.Addr(), f.In)
		return Verdict{Fate: Dropped}, nil
	}
	if t.local(f.Dst.Addr()) {
		t.step("routing: %s is an address of the node", f.Dst.Addr())
		return t.delivered(f)
	}
	t.step("routing: %s is elsewhere", f.Dst.Addr())
	if fate, err := t.hook("filter", "FORWARD", f); fate != passed || err != nil {
		return Verdict{Fate: fate}, err
	}
	fate, err := t.leaves(f, Forwarded)
	return Verdict{Fate: fate, Masquerade: f.masquerade}, err
}

// delivered follows a packet for an address of the node through LOCAL_IN: first the
// filter, then IPVS.
func (t *tracer) delivered(f *flight) (Verdict, error) {
	if fate, err := t.hook("filter", "INPUT", f); fate != passed || err != nil {
		return Verdict{Fate: fate}, err
	}
	if k, ok := t.virtual(&f.View); ok {
		return t.balanced(f, k)
	}
	t.step("no virtual server at %s: the node itself", f.Dst)
	return Verdict{Fate: Host, Masquerade: f.masquerade}, nil
}

// sent follows a packet of the node itself. In LOCAL_OUT IPVS comes after nat and before
// the filter (NF_IP_PRI_NAT_DST + 2 of linux/netfilter_ipv4.h). So the filter sees the
// packet on its way to a real server.
func (t *tracer) sent(f *flight) (Verdict, error) {
	if !f.Src.IsValid() {
		a, err := t.source(f.Dst.Addr())
		if err != nil {
			return Verdict{}, err
		}
		f.Src = netip.AddrPortFrom(a, anyPort)
		t.step("routing: the node sends from %s", a)
	} else if !t.local(f.Src.Addr()) {
		return Verdict{}, fmt.Errorf("%s is not an address of the node, and it comes in by no device", f.Src.Addr())
	}
	for _, table := range []string{"raw", "nat"} {
		if fate, err := t.hook(table, "OUTPUT", f); fate != passed || err != nil {
			return Verdict{Fate: fate}, err
		}
	}
	if k, ok := t.virtual(&f.View); ok {
		return t.balanced(f, k)
	}
	if f.translated.Proto != 0 && f.Src.Addr().Is4() && f.Src.Addr().IsLoopback() && !t.local(f.Dst.Addr()) &&
		!t.routesLocalnet() {
		t.step("routing: nothing leaves from %s", f.Src.Addr()) // ip_route_me_harder
		return Verdict{Fate: Dropped}, nil
	}
	if fate, err := t.hook("filter", "OUTPUT", f); fate != passed || err != nil {
		return Verdict{Fate: fate}, err
	}
	if fate, err := t.leaves(f, Forwarded); fate != Forwarded || err != nil || !t.local(f.Dst.Addr()) {
		return Verdict{Fate: fate, Masquerade: f.masquerade}, err
	}
	t.step("routing: %s is an address of the node", f.Dst.Addr())
	f.In = loopback
	return t.delivered(f)
}

// loopback is the device by which the node receives what it sends to itself.
const loopback = "lo"

// balanced follows a packet to each real server that virtual server k may choose.
func (t *tracer) balanced(f *flight, k kernel.VirtualKey) (Verdict, error) {
	v := Verdict{Fate: Refused, Virtual: k}
	for _, r := range t.State.Reals.Of(k) {
		if r.Weight == 0 && !f.Established {
			t.step("ipvs %s: %s has weight 0", k, r.Key.Addr)
			continue
		}
		w, err := t.way(*f, r)
		if err != nil {
			return Verdict{}, err
		}
		v.Ways = append(v.Ways, w)
	}
	if len(v.Ways) == 0 {
		t.step("ipvs %s: no usable real server", k)
		return v, nil
	}
	v.Fate = v.Ways[0].Fate
	if slices.ContainsFunc(v.Ways, func(w Way) bool { return w.Fate == Balanced }) {
		v.Fate = Balanced
	}
	return v, nil
}

// way follows a packet to one real server. IPVS sets its new destination and sends it by
// LOCAL_OUT (ip_vs_nat_xmit), wherever it came from. nat OUTPUT is not asked twice for
// one connection. A real server on the node itself gets a received packet directly. The
// node's own packet to one goes on through LOCAL_OUT and the loopback device, by every
// method (ip_vs_send_or_cont).
//
// Direct keeps the destination (ip_vs_dr_xmit). A tunnel wraps the packet, and only the
// outer packet, from the node to the real server, passes LOCAL_OUT (ip_vs_tunnel_xmit).
func (t *tracer) way(f flight, r kernel.Real) (Way, error) {
	cameIn, here, port := f.In != "", t.local(r.Key.Addr.Addr()), f.Dst.Port()
	t.step("ipvs %s", r)
	f.virtual, f.In, f.BridgePort = r.Key.Virtual, "", ""
	w := Way{Real: r.Key.Addr, Weight: r.Weight, Forward: r.Forward, Fate: Balanced, Mark: f.Mark}
	if f.Established {
		w.Masquerade = AsBefore
	}
	if r.Forward == kernel.Masquerade {
		if f.Dst = r.Key.Addr; f.Dst.Port() == 0 {
			f.Dst = netip.AddrPortFrom(f.Dst.Addr(), port) // behind a mark it keeps its own
		}
	}
	switch {
	case r.Forward != kernel.Masquerade && cameIn && here:
		t.step("%s is the node itself, and gets the packet unchanged", r.Key.Addr.Addr())
		return w, nil
	case cameIn && here:
		t.step("%s is the node itself: neither filtered nor masqueraded again", r.Key.Addr.Addr())
		return w, nil
	case !here && f.Src.Addr().IsLoopback():
		t.step("ipvs lets nothing leave from %s", f.Src.Addr())
		w.Fate = Dropped
		return w, nil
	case r.Forward == kernel.Tunnel && !here:
		t.step("wrapped for %s: no rule sees the packet inside", r.Key.Addr.Addr())
		return w, nil
	}
	fate, err := t.hook("filter", "OUTPUT", &f)
	if fate == passed && err == nil {
		fate, err = t.leaves(&f, Balanced)
	}
	if fate == Balanced && err == nil && here {
		f.In = loopback
		if fate, err = t.hook("filter", "INPUT", &f); fate == passed {
			fate = Balanced
		}
	}
	w.Fate = fate
	if !f.Established {
		w.Masquerade = f.masquerade
	}
	return w, err
}

// leaves takes a packet through POSTROUTING, the last hook.
func (t *tracer) leaves(f *flight, fate Fate) (Fate, error) {
	f.marked = f.Mark
	if f.virtual.Proto != 0 && !t.tracked() {
		t.step("net.ipv4.vs.conntrack is off: what ipvs balanced passes no nat rules")
		return fate, nil
	}
	stop, err := t.hook("nat", "POSTROUTING", f)
	if stop != passed {
		fate = stop
	}
	if f.Established {
		f.masquerade = AsBefore
	}
	return fate, err
}

// tracked reports whether connection tracking follows what IPVS balances. If the state does
// not say, it is a state of rules alone, and the sysctl counts as set.
func (t *tracer) tracked() bool {
	return !slices.Contains(t.State.Sysctls, kernel.Sysctl{Name: "net.ipv4.vs.conntrack", Value: "0"})
}

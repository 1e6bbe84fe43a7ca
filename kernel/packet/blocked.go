package packet

import (
	"fmt"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// NATPriority is where at hook prerouting, and at output for what the node sends, rules of nat change destinations
// (NF_IP_PRI_NAT_DST of linux/netfilter_ipv4.h). Chains of a higher priority see the new one.
const NATPriority = -100

// Blocked returns a line for each ruling of a base chain of other programs by which no client's packets to some of what
// is served pass, with what that is: of the wanted virtual servers, or without any of what rules send on to backends
// elsewhere. Every line is true; what depends on the client, or is not understood, makes none. It judges what the base
// chains do once the wanted state is applied.
func Blocked(have *kernel.Observed, want *kernel.State, byRules []kernel.VirtualKey) []string {
	if len(have.Firewall) == 0 {
		return nil
	}
	f := NewFirewall(Applied(have, want))
	if len(want.Virtuals) == 0 {
		return f.Lines(f.Shut(ByNAT, byRules))
	}
	keys := make([]kernel.VirtualKey, len(want.Virtuals))
	for i := range want.Virtuals {
		keys[i] = want.Virtuals[i].Key
	}
	return f.Lines(f.Shut(PassingOf(have), keys))
}

// PassingOf returns how packets pass to virtual servers.
func PassingOf(have *kernel.Observed) Passing {
	if have.Relayed {
		return ByRelay
	}
	return ByIPVS
}

// Passing is how a virtual server's packets pass the hooks.
type Passing uint8

// The ways.
const (
	ByIPVS  Passing = iota // hooks input and output; replies pass forward
	ByNAT                  // rules of nat send them on through forward, as their replies
	ByRelay                // hooks input and output
)

// point is a hook that a client's packet, or its reply, passes.
type point struct {
	hook  string
	moved bool // its destination is a backend, which is not known
	reply bool
}

var points = map[Passing][]point{
	ByIPVS: {{"ingress", false, false}, {"prerouting", false, false}, {"input", false, false}, {"output", true, false},
		{"postrouting", true, false}, {"forward", true, true}},
	ByNAT: {{"ingress", false, false}, {"prerouting", false, false}, {"forward", true, false}, {"forward", true, true},
		{"postrouting", true, false}},
	ByRelay: {{"ingress", false, false}, {"prerouting", false, false}, {"input", false, false}, {"output", true, false}},
}

// Shut is a virtual server that a base chain keeps all clients from.
type Shut struct {
	Key    kernel.VirtualKey
	base   int // index in Firewall.Bases
	effect Effect
	rule   string // "" for the policy
}

// Shut returns the virtual servers that base chains keep all clients from, in their order.
func (f *Firewall) Shut(by Passing, virtuals []kernel.VirtualKey) (all []Shut) {
	for _, k := range virtuals {
		for i := range f.Bases {
			b := &f.Bases[i]
			if b.Table() == "nat" {
				continue // it may move packets, and what our own rules there do is another question
			}
			for _, p := range points[by] {
				if p.hook != b.Hook {
					continue
				}
				if r := f.shut(b, by, p, k); r.Lost() {
					all = append(all, Shut{k, i, r.Effect, r.Rule})
					break
				}
			}
		}
	}
	return all
}

// Lines says what base chains shut, a line for each ruling, in the order of the base chains.
func (f *Firewall) Lines(shut []Shut) (lines []string) {
	type ruling struct {
		effect Effect
		rule   string
	}
	for i := range f.Bases {
		var order []ruling
		keys := map[ruling][]kernel.VirtualKey{}
		for _, s := range shut {
			if s.base != i {
				continue
			}
			r := ruling{s.effect, s.rule}
			if keys[r] == nil {
				order = append(order, r)
			}
			keys[r] = append(keys[r], s.Key)
		}
		for _, r := range order {
			lines = append(lines, f.Bases[i].line(keys[r], r.effect, r.rule))
		}
	}
	return lines
}

// line says what a base chain does with packets to virtual servers.
func (b *Base) line(shut []kernel.VirtualKey, effect Effect, rule string) string {
	what, are := shut[0].String(), "it is"
	if n := len(shut) - 1; n > 0 {
		what, are = fmt.Sprintf("%s and %d more", what, n), "they are"
	}
	if rule == "" {
		return fmt.Sprintf("%s: no rule accepts %s, %s left to %s", b.Name, what, are, effect)
	}
	return fmt.Sprintf("%s: the rule %s takes %s", b.Name, rule, what)
}

// shut returns what a base chain does with the packets of every client: the effect is unclear if it is not the same
// on all links by which they may come.
func (f *Firewall) shut(b *Base, by Passing, p point, k kernel.VirtualKey) Ruling {
	if k.Proto == kernel.FWMark || !b.Sees(k.Family()) { // whoever marks packets knows which
		return Ruling{}
	}
	moved := p.moved || by == ByNAT && b.Hook == "prerouting" && b.Priority > NATPriority
	v := f.View(Packet{Proto: k.Proto, Dst: k.AddrPort()})
	v.Outside, v.Reply, v.Unknown = true, p.reply, f.hides|Source|In|Out
	if moved {
		v.Unknown |= Destination | Mark
	}
	if b.Hook == "input" { // our rules of nat may have marked it at hook prerouting
		v.Unknown |= Mark
	}
	links := f.node.links(k)
	if p.moved || len(links) == 0 {
		if b.Links != "" {
			return Ruling{}
		}
		return b.Judge(v)
	}
	v.Unknown &^= In
	var last Ruling
	for _, v.In = range links {
		if b.Links != "" && !slices.Contains(f.At(b.Hook, k.Family(), v.In), b) {
			return Ruling{}
		}
		if last = b.Judge(v); !last.Lost() {
			break
		}
	}
	return last
}

// links returns the links by which clients of a virtual server may come: that of the network that has its address,
// else all that have an address of the family.
func (h *Node) links(k kernel.VirtualKey) (all []string) {
	var near []string
	for _, a := range h.Facts.Addrs {
		if kernel.FamilyOf(a.Prefix.Addr()) != k.Family() {
			continue
		}
		if a.Prefix.Contains(k.Addr) && a.Prefix.Addr() != k.Addr && !slices.Contains(near, a.Link) {
			near = append(near, a.Link)
		}
		if !slices.Contains(all, a.Link) {
			all = append(all, a.Link)
		}
	}
	if len(near) > 0 && !h.Facts.Has(k.Addr) {
		return near
	}
	return all
}

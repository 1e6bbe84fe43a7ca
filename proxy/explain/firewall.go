package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/packet"
	"github.com/svcproxy/svcproxy/sources"
)

// Base chains with rules of other programs: package kernel/packet says what each does, here are the hooks that a
// packet, what goes to a backend, and its replies pass.

// ends is the base chain that ends a packet's way; nil if none surely does.
type ends struct {
	*packet.Base
	packet.Ruling
}

// known is what rules of others may change of a packet: its mark, what connection tracking says of it, and what is not
// known of these.
type known struct {
	mark   uint32
	state  string
	hidden packet.Field
}

func (k *known) of(v packet.View) packet.View {
	v.Mark, v.State, v.Unknown = k.mark, k.state, v.Unknown|k.hidden
	return v
}

// passes asks the base chains at a hook about a packet that comes in, or leaves, by a device. What may end its way adds
// a step, and a condition: whose is "it" or "its replies". It notes in k what they change.
func (x *explainer) passes(hook, link, what, whose string, v packet.View, s side, k *known) ends {
	v = x.ofAny(k.of(v))
	for _, b := range x.firewall.At(hook, x.key.Family(), link) {
		if s == before && b.Priority > packet.NATPriority || s == behind && b.Priority <= packet.NATPriority {
			continue
		}
		r := b.Judge(v)
		if b.Table() != "nat" { // there are rules of ours, which Trace follows
			v = r.Left
			*k = known{v.Mark, v.State, v.Unknown & (packet.Mark | packet.Tracking)}
		}
		switch r.Effect {
		case packet.Accepts:
		case packet.Unclear:
			if r.MayEnd == "" {
				x.once(stageFirewall, "%s at hook %s: may accept %s (%s), else %s", b.Name, b.Hook, whose,
					sources.Count(len(r.Doubts), "rule"), may[r.May])
			} else {
				x.step(stageFirewall, "%s at hook %s: may %s %s: %s", b.Name, b.Hook, may[r.May], what, r.MayEnd)
			}
			x.doubt(b.Name+" accepts "+whose, r.Doubts)
		default:
			return ends{b, r}
		}
	}
	return ends{}
}

// may is what a rule may do that cannot be judged.
var may = map[packet.Effect]string{packet.Drops: "drop", packet.Rejects: "reject", packet.Moves: "redirect",
	packet.Unclear: "take"}

// side is where base chains of a hook are.
type side uint8

const (
	all    side = iota
	before      // before rules of nat
	behind      // behind them: the destination is another one
)

// side returns a side of the hook at which rules of nat send the packet to a backend, and all of any other hook.
func (x *explainer) side(s side, hook string) side {
	if !x.served() && (hook == "prerouting" && x.p.In != "" || hook == "output" && x.p.In == "") {
		return s
	}
	return all
}

// doubt notes that rules which cannot be judged decide about something.
func (x *explainer) doubt(that string, rules []string) {
	i := slices.IndexFunc(x.doubts, func(d doubt) bool { return d.that == that })
	if i < 0 {
		i = len(x.doubts)
		x.doubts = append(x.doubts, doubt{that: that})
	}
	for _, r := range rules {
		if !slices.Contains(x.doubts[i].rules, r) {
			x.doubts[i].rules = append(x.doubts[i].rules, r)
		}
	}
}

// doubt is a condition of being served that depends on rules that cannot be judged.
type doubt struct {
	that  string
	rules []string
}

func (d doubt) String() string {
	return fmt.Sprintf("%s (%s it cannot judge)", d.that, sources.Count(len(d.rules), "rule"))
}

// ofAny returns the packet, or the reply, of any client outside if one stands for all.
func (x *explainer) ofAny(v packet.View) packet.View {
	if !x.AnySource || x.p.In == "" {
		return v
	}
	if v.Src == x.p.Src {
		v.Src, v.Unknown = netip.AddrPort{}, v.Unknown|packet.Source|packet.In
	} else {
		v.Unknown |= packet.Destination | packet.Out
	}
	v.Outside = true
	return v
}

// view is a packet of the connection.
func (x *explainer) view(src, dst netip.AddrPort, in, out string) packet.View {
	v := x.firewall.View(packet.Packet{Proto: x.p.Proto, Echo: x.p.Echo, Src: src, Dst: dst, In: in, Mark: x.p.Mark})
	if v.Out = out; out == "" {
		v.Unknown |= packet.Out
	}
	return v
}

// comesIn asks the base chains before routing.
func (x *explainer) comesIn() {
	hooks := []string{"ingress", "prerouting"}
	if x.bridged(x.p.In) {
		hooks = []string{"ingress", "bridge-prerouting", "bridge-input", "prerouting"}
	}
	for _, hook := range hooks {
		x.received(hook)
	}
}

func (x *explainer) bridged(link string) bool {
	return slices.ContainsFunc(x.Kernel.Node.Bridges, func(b kernel.Bridge) bool { return b.Link == link })
}

// received asks the base chains at a hook that the packet passes on its way in.
func (x *explainer) received(hook string) {
	v := x.view(x.p.Src, x.p.Dst, x.p.In, "")
	v.Established = x.p.Established
	if !x.served() && hook == "input" {
		v.Unknown |= packet.Destination
	}
	if strings.HasPrefix(hook, "bridge-") {
		if v.In = x.p.BridgePort; v.In == "" {
			v.Unknown |= packet.In
		}
	}
	k := known{x.p.Mark, x.p.State, x.hidden}
	if hook == "input" {
		k.mark = x.mark()
	}
	e := x.passes(hook, x.p.In, x.key.String(), "it", v, x.side(before, hook), &k)
	if hook != "input" {
		x.p.Mark, x.p.State, x.hidden = k.mark, k.state, k.hidden
	}
	if e.Base != nil {
		x.ended(e)
	}
}

// ended ends the way of the packet at a base chain.
func (x *explainer) ended(e ends) {
	what := x.key.String()
	fate, word := Dropped, "dropped"
	if e.Effect == packet.Rejects {
		fate, word = Refused, "refused"
	}
	switch {
	case e.Effect == packet.Moves:
		to := "another destination"
		if e.To.IsValid() {
			to = e.To.String()
		}
		x.wrong(stageFirewall, "%s at hook %s: %s sends it to %s", e.Name, e.Hook, e.Rule, to)
		x.end(Forwarded, fmt.Sprintf("not served: the rule %s of %s at hook %s sends %s to %s", e.Rule, e.Name, e.Hook, what,
			to))
	case e.Rule == "":
		x.wrong(stageFirewall, "%s at hook %s: no rule accepts %s, left to %s", e.Name, e.Hook, what, e.Effect)
		x.end(fate, fmt.Sprintf("%s by the firewall: no rule of %s at hook %s accepts %s", word, e.Name, e.Hook, what))
	default:
		x.wrong(stageFirewall, "%s at hook %s: %s", e.Name, e.Hook, e.Rule)
		x.end(fate, fmt.Sprintf("%s by the firewall: the rule %s of %s at hook %s takes %s", word, e.Rule, e.Name, e.Hook,
			what))
	}
}

// leg is one direction of the way between this node and backends, in words. here: they are on this node.
type leg struct {
	what, its, whose string
	reply, here      bool
}

var (
	there = leg{what: "what goes to", its: "what goes there", whose: "it"}
	back  = leg{what: "replies of", its: "its replies", whose: "its replies", reply: true}
	ours  = leg{what: "replies of", its: "its replies", whose: "its replies", reply: true, here: true}
)

// each calls a function for each backend of a leg that may get the packet.
func (x *explainer) each(l leg, do func(*Backend)) {
	for i := range x.a.Backends {
		if b := &x.a.Backends[i]; b.Usable && b.Lost == "" && (x.local(b.Address.Addr()) != "") == l.here {
			do(b)
		}
	}
}

// leaves are the hooks of what leaves by a device, which may be a bridge.
var leaves = []string{"postrouting", "bridge-output", "bridge-postrouting", "egress"}

// leaving asks the base chains behind the virtual server: the packet passes them on its way to a backend elsewhere,
// and the reply on its way back.
func (x *explainer) leaving() {
	if x.verdict.Fate != packet.Balanced {
		return
	}
	hooks := []string{"prerouting", "forward"}
	if x.served() || x.p.In == "" {
		hooks = []string{"output"}
	}
	for _, hook := range slices.Concat(hooks, leaves) {
		x.between(there, hook, x.side(behind, hook))
	}
	for _, hook := range []string{"ingress", "bridge-prerouting", "bridge-input"} {
		x.between(back, hook, all)
	}
	x.between(back, "prerouting", before)
	x.between(back, "prerouting", behind)
	if x.p.In == "" {
		x.between(back, "input", all)
		return
	}
	x.between(back, "forward", all)
	x.between(ours, "output", all)
	for _, hook := range leaves {
		x.between(back, hook, all)
		x.between(ours, hook, all)
	}
}

// between asks the base chains at a hook about a packet to, or a reply of, each backend of a leg.
func (x *explainer) between(l leg, hook string, s side) {
	var left ends // the one whose policy ends the way of some
	var lost []string
	x.each(l, func(b *Backend) {
		if l == back && b.Forward != "" {
			return // replies go past this node
		}
		v, link := x.toBackend(b, hook)
		k := &b.there
		if l.reply {
			v, link = x.replyAt(b, hook, s)
			k = &b.back
		}
		if strings.HasPrefix(hook, "bridge-") && !x.bridged(link) {
			return
		}
		e := x.passes(hook, link, l.what+" "+b.Address.String(), l.whose, v, s, k)
		b.rejected = l == there && e.Effect == packet.Rejects
		switch {
		case e.Base == nil:
		case e.Rule == "":
			b.Lost = fmt.Sprintf("no rule of %s at hook %s accepts %s", e.Name, hook, l.its)
			left, lost = e, append(lost, b.Address.String())
		default:
			b.Lost = fmt.Sprintf("the rule %s of %s at hook %s takes %s", e.Rule, e.Name, hook, l.its)
			x.wrong(stageFirewall, "%s at hook %s: %s takes %s %s", e.Name, hook, e.Rule, l.what, b.Address)
		}
	})
	if left.Base != nil {
		x.wrong(stageFirewall, "%s at hook %s: no rule accepts %s %s, left to %s", left.Name, hook, l.what,
			sources.Few(lost, 3), left.Effect)
	}
}

// toBackend is the packet on its way to a backend as the chains at a hook see it, and the device by which it comes in,
// or leaves.
func (x *explainer) toBackend(to *Backend, hook string) (v packet.View, link string) {
	v, link = x.view(x.p.Src, to.Address, "", to.Link), to.Link
	if hook == "prerouting" || hook == "forward" {
		v.In = x.p.In
	}
	if hook == "prerouting" {
		link, v.Unknown = x.p.In, v.Unknown|packet.Out
	}
	if to.Forward != "" {
		v.Unknown |= packet.Destination
	}
	if strings.HasPrefix(hook, "bridge-") { // its port is not known
		v.Unknown |= packet.Out
	}
	return v, link
}

// replyAt is a reply of a backend as the chains at a hook see it, and the device by which it comes in, or leaves.
// Its destination was masqueraded until rules of nat undo that at hook prerouting, and its source is that of the
// backend until it leaves, or IPVS changes it at hook output.
func (x *explainer) replyAt(from *Backend, hook string, s side) (v packet.View, link string) {
	comesIn, back := slices.Contains([]string{"ingress", "bridge-prerouting", "bridge-input", "prerouting"}, hook), ""
	if !comesIn && x.p.Src.IsValid() {
		back = x.linkTo(x.p.Src.Addr())
	}
	v = x.view(from.Address, x.p.Src, from.Link, back)
	if v.Reply = true; from.Link == "lo" {
		v.In = ""
	} else if v.In == "" || strings.HasPrefix(hook, "bridge-") {
		v.Unknown |= packet.In
	}
	masked := comesIn && s != behind && from.Masqueraded
	if masked || x.p.In == "" {
		v.Unknown |= packet.HighPort
	}
	if masked {
		v.Dst = netip.AddrPortFrom(from.Source, 0)
	}
	leaving := slices.Contains(leaves, hook)
	if leaving || hook == "output" {
		v.Unknown |= packet.Source
	}
	if leaving {
		return v, back
	}
	return v, from.Link
}

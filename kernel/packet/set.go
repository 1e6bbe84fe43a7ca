package packet

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// dimensions is how many parts of a packet a set of each type looks up.
var dimensions = map[kernel.SetType]int{
	kernel.HashIP: 1, kernel.HashIPPort: 2, kernel.HashIPPortIP: 3, kernel.HashIPPortNet: 3, kernel.BitmapPort: 1,
	kernel.MapIPPort: 2,
}

// original is in place of dst for what the destination was before it was translated.
const original = "origdst"

// inSet looks up parts of a packet, "dst,dst,src", in a set of ours. Those of other programs are not known.
func (p *parser) inSet(name, parts string) (cond, error) {
	from := strings.Split(parts, ",")
	needs := theNode
	for _, part := range from {
		switch {
		case part == "src":
			needs |= Source
		case part == original:
			needs |= history
		case part != "dst":
			return cond{}, fmt.Errorf("%q is neither src nor dst", part)
		case len(from) > 1:
			needs |= Destination | HighPort
		default:
			needs |= Destination
		}
	}
	p.rule.onSource = p.rule.onSource || needs&Source != 0
	if len(p.words) > 0 && strings.HasPrefix(p.words[0], "--") {
		return cond{}, fmt.Errorf("option %q of a set is not understood", p.next())
	}
	ask := func(v *View) (Answer, string) {
		at := slices.IndexFunc(v.Node.State.Sets, func(s kernel.Set) bool { return s.Name == name })
		if at < 0 {
			return Unknown, "there is no set " + name
		}
		set := v.Node.State.Sets[at]
		if n, ok := dimensions[set.Type]; !ok || n != len(from) {
			return Unknown, fmt.Sprintf("set %s of type %q cannot be asked about %q", name, set.Type, parts)
		}
		e, ok := member(set, from, v)
		switch {
		case !ok:
			return No, "nothing of it can be in " + name
		case v.Node.has(set, e):
			return Yes, e.Member() + " is in " + name
		}
		return No, e.Member() + " is not in " + name
	}
	return cond{needs: needs, holds: func(v *View) Answer { a, _ := ask(v); return a },
		why: func(v *View) string { _, why := ask(v); return why }}, nil
}

// member returns the entry that a packet would match in a set, if there can be one. A
// hash has one family, and a ping has no port. A bitmap of ports matches only TCP and
// UDP (net/netfilter/ipset/ip_set_bitmap_port.c).
func member(set kernel.Set, from []string, v *View) (kernel.Entry, bool) {
	part := func(i int) netip.AddrPort {
		if from[i] == original {
			return v.translated.AddrPort()
		}
		end, _ := v.end(from[i] == "src")
		return end
	}
	e := kernel.Entry{Set: set.Name}
	if set.Type == kernel.BitmapPort {
		e.Port = part(0).Port()
		return e, v.Proto == kernel.TCP || v.Proto == kernel.UDP
	}
	if set.Family != v.family() {
		return e, false
	}
	e.Addr = part(0).Addr()
	if set.Type == kernel.HashIP {
		return e, e.Addr.IsValid()
	}
	e.Proto, e.Port = v.Proto, part(1).Port()
	if len(from) > 2 {
		a := part(2).Addr()
		e.Second = netip.PrefixFrom(a, a.BitLen())
	}
	return e, !v.Echo
}

// has reports whether an entry is in its set. In a set of networks it looks for a network
// that contains the address.
func (h *Node) has(set kernel.Set, e kernel.Entry) bool {
	if set.Type != kernel.HashIPPortNet {
		return h.State.Entries.Has(e)
	}
	return slices.ContainsFunc(h.State.Entries.At(e), func(x kernel.Entry) bool {
		return x.Second.Contains(e.Second.Addr())
	})
}

package trace

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
}

// inSet looks up parts of a packet, "dst,dst,src", in a set.
func (p *parser) inSet(name, parts string) (match, error) {
	at := slices.IndexFunc(p.state.Sets, func(s kernel.Set) bool { return s.Name == name })
	if at < 0 {
		return nil, fmt.Errorf("there is no set %s", name)
	}
	set, from := p.state.Sets[at], strings.Split(parts, ",")
	if n, ok := dimensions[set.Type]; !ok || n != len(from) {
		return nil, fmt.Errorf("set %s of type %q cannot be asked about %q", name, set.Type, parts)
	}
	source := make([]bool, len(from))
	for i, part := range from {
		if source[i] = part == "src"; !source[i] && part != "dst" {
			return nil, fmt.Errorf("%q is neither src nor dst", part)
		}
		p.rule.onSource = p.rule.onSource || source[i]
	}
	return func(t *tracer, f *flight) (bool, string) {
		e, ok := lookup(set, source, f)
		switch {
		case !ok:
			return false, "nothing of it can be in " + name
		case t.has(set, e):
			return true, e.Member() + " is in " + name
		}
		return false, e.Member() + " is not in " + name
	}, nil
}

// lookup returns the entry that a packet would match in a set, if there can be one. A
// hash has one family, and a ping has no port. A bitmap of ports matches only TCP and
// UDP (net/netfilter/ipset/ip_set_bitmap_port.c).
func lookup(set kernel.Set, source []bool, f *flight) (kernel.Entry, bool) {
	part := func(i int) netip.AddrPort {
		end, _ := f.end(source[i])
		return end
	}
	e := kernel.Entry{Set: set.Name}
	if set.Type == kernel.BitmapPort {
		e.Port = part(0).Port()
		return e, f.Proto == kernel.TCP || f.Proto == kernel.UDP
	}
	if set.Family != f.family() {
		return e, false
	}
	e.Addr = part(0).Addr()
	if set.Type == kernel.HashIP {
		return e, true
	}
	e.Proto, e.Port = f.Proto, part(1).Port()
	if len(source) > 2 {
		a := part(2).Addr()
		e.Second = netip.PrefixFrom(a, a.BitLen())
	}
	return e, !f.Echo
}

// has reports whether an entry is in its set. In a set of networks it looks for a network
// that contains the address.
func (t *tracer) has(set kernel.Set, e kernel.Entry) bool {
	if set.Type != kernel.HashIPPortNet {
		return t.state.Entries.Has(e)
	}
	all := t.state.Entries.Of(e.Set)
	first := e
	first.Second = netip.Prefix{}
	i, _ := slices.BinarySearchFunc(all, first, kernel.Entry.Compare)
	for ; i < len(all) && all[i].Key() == e.Key(); i++ {
		if all[i].Second.Contains(e.Second.Addr()) {
			return true
		}
	}
	return false
}

package rules

import (
	"net/netip"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// loopBack notes the endpoints of this node, which may call their own service: a packet from an endpoint
// that is balanced back to it has one address at both ends, and would be answered past us unless it is
// masqueraded. One whose node is not known may be here. Its conditions do not matter: while it drains its
// connections live.
func (l *listing) loopBack(p sources.Port) {
	for i := range l.found {
		x := &l.found[i]
		if !x.local && !x.homeless {
			continue
		}
		a := x.addr.Addr()
		l.loops = append(l.loops, kernel.Entry{
			Addr:   a,
			Proto:  kernel.Proto(p.Protocol),
			Port:   x.addr.Port(),
			Second: netip.PrefixFrom(a, a.BitLen()),
		})
	}
}

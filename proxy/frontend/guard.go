package frontend

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// guard returns what a service's source ranges mean for one of its load balancer
// IPs. Ranges apply per family, as in kube-proxy: IPv4 ranges do not restrict an
// IPv6 address. A /0 allows everyone, and a hash:net set could not hold it.
func (l *lister) guard(s *sources.Service, vip netip.Addr) Traits {
	f := kernel.FamilyOf(vip)
	is := Traits(0)
	for _, r := range s.SourceRanges {
		if kernel.FamilyOf(r.Addr()) != f {
			continue
		}
		if r.Bits() == 0 {
			return 0
		}
		is |= Restricted
		if l.covers(r) {
			is |= NodeAllowed
		}
	}
	return is
}

// covers reports whether a source range contains this node: its primary address,
// or any of its addresses if the family has no primary one.
func (l *lister) covers(r netip.Prefix) bool {
	primary := l.Node.Primary4
	if r.Addr().Is6() {
		primary = l.Node.Primary6
	}
	if primary.IsValid() {
		return r.Contains(primary)
	}
	return slices.ContainsFunc(l.host, func(a netip.Addr) bool { return servable(a) && r.Contains(a) })
}

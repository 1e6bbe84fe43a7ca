package rules

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// guard says what a service's source ranges do to a load balancer IP of its own. Ranges are heeded by
// family: an IPv6 address is not restricted by IPv4 ranges, as in kube-proxy. A /0 allows everyone, and
// could not be put into a set anyway.
func (l *listing) guard(s *sources.Service, vip netip.Addr) traits {
	f := kernel.FamilyOf(vip)
	is := traits(0)
	for _, r := range s.SourceRanges {
		if kernel.FamilyOf(r.Addr()) != f {
			continue
		}
		if r.Bits() == 0 {
			return 0
		}
		is |= restricted
		if l.covers(r) {
			is |= nodeAllowed
		}
	}
	return is
}

// covers says whether this node is inside a source range: by its primary address, or by any of its own
// where the family has no default route to make one primary.
func (l *listing) covers(r netip.Prefix) bool {
	primary := l.node.Primary4
	if r.Addr().Is6() {
		primary = l.node.Primary6
	}
	if primary.IsValid() {
		return r.Contains(primary)
	}
	return slices.ContainsFunc(l.host, func(a netip.Addr) bool { return servable(a) && r.Contains(a) })
}

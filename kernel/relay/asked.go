package relay

import (
	"net/netip"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
)

// UnansweredFor is how long it is remembered that an endpoint did not answer in time.
const UnansweredFor = time.Minute

// mostUnanswered bounds what is remembered of an endpoint.
const mostUnanswered = 16

// missed notes that an endpoint did not answer in time.
func (s *service) missed(to *endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(to.unanswered) == mostUnanswered {
		copy(to.unanswered, to.unanswered[1:])
		to.unanswered = to.unanswered[:mostUnanswered-1]
	}
	to.unanswered = append(to.unanswered, s.r.limits.now())
}

// TCP calls f for each connection that an endpoint did not answer since it answered one, in the last UnansweredFor. As
// endpoints see it, the client of all is the node. f is as that of conntrack.Table.TCP; with or without waiting, those
// that were answered are left out.
func (r *Relay) TCP(family kernel.Family, _ bool, f func(kernel.Asked)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.limits.now()
	for _, s := range r.sorted() {
		if s.key.Proto != kernel.TCP || s.key.Family() != family {
			continue
		}
		s.mu.Lock()
		for _, e := range s.endpoints {
			for i, at := range e.unanswered {
				if age := now.Sub(at); age < UnansweredFor {
					f(kernel.Asked{
						Key:    kernel.RealKey{Virtual: s.key, Addr: e.addr},
						Client: netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(i)), Left: UnansweredFor - age,
					})
				}
			}
		}
		s.mu.Unlock()
	}
	return nil
}

package status

import (
	"math"

	"github.com/svcproxy/svcproxy/proxy/screen"
)

// Count is a number of connections. JSON leaves out Unknown: a 0 would say that there are none.
type Count uint64

// Unknown is the count of connections that nothing counts. A decoded status has 0 instead: ask its Uncounted.
const Unknown Count = math.MaxUint64

// IsZero reports whether JSON leaves out the count.
func (n Count) IsZero() bool { return n == Unknown }

// unknownTraffic is the traffic that nothing counts.
var unknownTraffic = Traffic{Connections: uint64(Unknown)}

// IsZero reports whether JSON leaves out the traffic.
func (t Traffic) IsZero() bool { return t == unknownTraffic }

// uncount makes all counters unknown.
func (st *Status) uncount() {
	st.Totals.Active, st.Totals.Inactive, st.Totals.Traffic = Unknown, Unknown, unknownTraffic
	for i := range st.Services {
		s := &st.Services[i]
		s.Active, s.Inactive, s.Traffic = Unknown, Unknown, unknownTraffic
		for j := range s.Virtuals {
			s.Virtuals[j].Traffic = unknownTraffic
		}
		for j := range s.Endpoints {
			// IPVS still counts those that drain since the mode was ipvs, and removes them when they have none.
			if e := &s.Endpoints[j]; e.Drain == nil || e.Active+e.Inactive == 0 {
				e.Active, e.Inactive = Unknown, Unknown
			}
		}
	}
}

// Count is a number of connections for people; "-" if they are not counted.
func (st *Status) Count(n Count) string {
	if st.Uncounted {
		return "-"
	}
	return screen.Count(uint64(n))
}

// bytes is an amount of traffic for people; "-" if it is not counted.
func (st *Status) bytes(n uint64) string {
	if st.Uncounted {
		return "-"
	}
	return screen.Bytes(n)
}

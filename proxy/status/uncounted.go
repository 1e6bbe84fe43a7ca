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

// uncounted is traffic of which new connections are known at most.
func (st *Status) uncounted(t Traffic) Traffic {
	if !st.NewOnly {
		return unknownTraffic
	}
	return Traffic{t.Connections, Unknown, Unknown, Unknown, Unknown}
}

// uncount makes all counters unknown that nothing counts.
func (st *Status) uncount() {
	st.Totals.Active, st.Totals.Inactive, st.Totals.Traffic = Unknown, Unknown, st.uncounted(st.Totals.Traffic)
	for i := range st.Services {
		s := &st.Services[i]
		s.Active, s.Inactive, s.Traffic = Unknown, Unknown, st.uncounted(s.Traffic)
		for j := range s.Virtuals {
			s.Virtuals[j].Traffic = st.uncounted(s.Virtuals[j].Traffic)
		}
		for j := range s.Endpoints {
			// IPVS still counts those that drain since the mode was ipvs, and removes them when they have none.
			if e := &s.Endpoints[j]; e.Drain == nil || e.Active+e.Inactive == 0 {
				e.Active, e.Inactive = Unknown, Unknown
			}
			if t := s.Endpoints[j].Traffic; t != nil {
				*t = st.uncounted(*t)
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

// began is a number of connections that began, for people; "-" if they are not counted.
func (st *Status) began(t Traffic) string {
	if st.Uncounted && !st.NewOnly {
		return "-"
	}
	return screen.Count(t.Connections)
}

// bytes is an amount of traffic for people; "-" if it is not counted.
func (st *Status) bytes(n Count) string {
	if st.Uncounted {
		return "-"
	}
	return screen.Bytes(uint64(n))
}

package announce

import (
	"maps"
	"net/netip"
	"time"
)

// Memory is what Keep and Step have to know of the last time. It is a value: each returns
// the next one. Its zero is that of a process that has just started.
type Memory struct {
	began      time.Time // of the first Step
	plans      int       // that were carried out
	vips       map[netip.Addr]remembered
	departures departures
	priority   priority
}

// remembered is what is known of one VIP.
type remembered struct {
	good  time.Time // since when it can be served; zero = it cannot
	fresh bool      // it could be served ever since it is in the table
	lacks since     // the kernel lacks a virtual server of it
	lost  since     // the kernel has no address or route for it
}

// since is how many plans had been carried out when a fault of the kernel was first seen,
// plus 1; 0 is no fault. The plan of the sync that sees it first should mend it.
type since int

// seen returns the fault after a reading that has it or not.
func (s since) seen(is bool, plans int) since {
	switch {
	case !is:
		return 0
	case s == 0:
		return since(plans + 1)
	}
	return s
}

// lasts reports whether a plan was carried out since, and did not mend it.
func (s since) lasts(plans int) bool { return s != 0 && int(s) <= plans }

// Ended returns the memory after a sync. carriedOut: its plan was, to the end, though ops
// of it may have failed. vips are as Confirm returned them, and now is when the sync ended,
// which may have taken long: a route that it removed is gone since then.
func (m Memory) Ended(carriedOut bool, vips []VIP, now time.Time) Memory {
	if carriedOut {
		m.plans++
	}
	withdrawn := maps.Clone(m.departures.withdrawn)
	for _, v := range vips {
		if !v.Announced && withdrawn[v.Addr].there {
			withdrawn[v.Addr] = withdrawal{at: now}
		}
	}
	m.departures.withdrawn = withdrawn
	return m
}

package announce

import "time"

// Priorities that keepalived adds to that of the node, for its track_file with weight 1.
// None reaches -254, which would take the node out: if both nodes lack the same VIP, or
// both are drained, one of them must still serve the others.
const (
	lowestOfVIPs      = -100 // whatever the number of VIPs that cannot be served, unless one takes more
	PriorityWithdrawn = -200 // the node is drained, or svcproxy is dead
)

// priority is the number that keepalived has been told of.
type priority struct {
	known bool
	is    int
	rises time.Time // not before: after a start no health check has a result yet
}

// Told returns the memory of a process that finds the number that an earlier one left, which
// does not rise before a time. known: there was one.
func (m Memory) Told(is int, known bool, rises time.Time) Memory {
	m.priority = priority{}
	if known {
		m.priority = priority{known: true, is: is, rises: rises}
	}
	return m
}

// next returns the number after a decision. It may always fall, and a drain, or the end of
// one, counts at once. While a table may be missing, or soon after a start, it does not rise.
func (p priority) next(is int, missing bool, now time.Time) priority {
	if p.known && p.is != PriorityWithdrawn && is > p.is && (missing || now.Before(p.rises)) {
		return p
	}
	p.known, p.is = true, is
	return p
}

// priorityOf makes one number of all VIPs. Each that cannot be served takes step.
func priorityOf(vips []VIP, step int) int {
	n := 0
	for i := range vips {
		if !vips[i].Announced && !vips[i].Uncounted {
			n -= step
		}
	}
	return max(n, min(lowestOfVIPs, -step))
}

// Package announce decides which VIPs routing daemons are told of. It is pure.
//
// A VIP is announced while this node can serve it: its service ports have enough endpoints
// that are up, the kernel has its virtual servers, and the operator has not drained the
// node. Routing protocols are left to BIRD, FRR and keepalived.
package announce

import (
	"net/netip"
	"time"
)

// Mode says how routing daemons are told. It is announce.mode.
type Mode string

// The modes.
const (
	Off    Mode = "off"
	Routes Mode = "routes" // BIRD and FRR read routes in a table of the kernel
	VRRP   Mode = "vrrp"   // keepalived reads a number in a file
)

// Require says which service ports of a VIP must be able to serve. It is announce.require.
type Require string

// The requirements.
const (
	All Require = "all"
	Any Require = "any"
)

// Config is table announce.
type Config struct {
	Mode                Mode
	Table               uint32 // of routes
	Metric, DrainMetric uint32
	// MinHealthy is the number of endpoints that must be up, or a percentage of those of
	// the service port if MinHealthyPercent. 0: the VIP is announced in any case.
	MinHealthy        int
	MinHealthyPercent bool
	Require           Require
	HoldUp            time.Duration // how long a VIP that could not be served must be good
	DrainTime         time.Duration // how long a drained node announces with DrainMetric
	WithdrawWait      time.Duration // how long a VIP that was removed is served after its withdrawal
}

// needed returns how many of some endpoints must be up. A service port with fewer
// endpoints than MinHealthy needs all of them, and at least one.
func (c *Config) needed(of int) int {
	n := c.MinHealthy
	if c.MinHealthyPercent {
		n = (of*c.MinHealthy + 99) / 100
		if c.MinHealthy > 0 {
			n = max(n, 1)
		}
	}
	return min(n, max(of, 1))
}

// VIP is a VIP that may be announced.
type VIP struct {
	Addr     netip.Addr
	Services []string // display names, sorted
	// Announced: routing daemons are told of it. Metric is that of its route, 0 in mode
	// vrrp.
	Announced bool
	Metric    uint32
	// Reason says why it is not announced, or why with DrainMetric; "" otherwise.
	Reason string
	// Until is when a VIP that is no longer in the table goes; zero if it is in the table.
	Until time.Time
}

// Memory is what the next decision has to know of the last one. Its zero is that of a
// process that has just started.
type Memory struct {
	began time.Time // of the first decision
	vips  map[netip.Addr]remembered
}

// Untried returns the memory after a plan that stopped before its end: what the kernel
// lacked may have been left to the next plan, so that it lacks it again says nothing.
func (m Memory) Untried() Memory {
	vips := make(map[netip.Addr]remembered, len(m.vips))
	for a, r := range m.vips {
		r.lacks, r.lost = false, false
		vips[a] = r
	}
	m.vips = vips
	return m
}

// NotTried returns the memory after a decision of which nothing was carried out: that the kernel lacks something says as
// much as in the memory before.
func (m Memory) NotTried(before Memory) Memory {
	vips := make(map[netip.Addr]remembered, len(m.vips))
	for a, r := range m.vips {
		was := before.vips[a]
		r.lacks, r.lost = was.lacks, was.lost
		vips[a] = r
	}
	m.vips = vips
	return m
}

// remembered is what is known of one VIP.
type remembered struct {
	good  time.Time // since when it can be served; zero = it cannot
	lacks bool      // the kernel lacked a virtual server of it
	lost  bool      // it was to be made local
	fresh bool      // it could be served ever since it is in the table
}

// Priorities that keepalived adds to that of the node, for its track_file with weight 1.
// None reaches -254, which would take the node out: if both nodes lack the same VIP, or
// both are drained, one of them must still serve the others.
const (
	priorityOfVIP     = -10  // for each VIP that cannot be served
	lowestOfVIPs      = -100 // whatever their number
	PriorityWithdrawn = -200 // the node is drained, or svcproxy is dead
)

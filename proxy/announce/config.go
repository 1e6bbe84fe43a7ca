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
	VIPPriority       int           // what a VIP that cannot be served takes from the priority, in mode vrrp
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
	// Moved: keepalived moves it (mode vrrp). Announced then says that this node can serve it. Link is the link of this
	// node that has it; "" while another node has it.
	Moved bool
	Link  string
	// Uncounted: its services have announce = false, so that keepalived is not told whether this node can serve it.
	Uncounted bool
}

package health

import (
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// View is what is known of health checks at one time.
type View struct {
	Now   time.Time
	Known Known
	// Table is the table that is served, as its sources have it and with the node's defaults in its health checks.
	Table   sources.Table
	Unusual []Unusual // indexes in Table
	Blind   string    // why nothing can be probed; "" = it can
	Holding time.Time // until when a mass failure is held; zero = there is none
	Probes  Probes
}

// Probes are the figures of the runner of probes.
type Probes struct {
	Started, Void uint64 // probes, and those whose result says nothing
	InFlight      int
	LateMax       time.Duration // how long after they were due probes started, at most
	Late99        time.Duration // and 99 % of them
	// Overdue exec checks have been due for more than three intervals, the oldest since OverdueSince.
	Overdue      int
	OverdueSince time.Time // zero if there is none
}

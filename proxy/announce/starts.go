package announce

import "time"

const (
	// steady is how long a svcproxy must run until its start counts as good. systemd withdraws the VIPs of one that is
	// dead after the same time.
	steady = time.Minute
	// forgotten is the time between two starts after which the first does not count: systemd starts again sooner.
	forgotten = 5 * time.Minute
	// leastStarts make a series. Fewer crashes are no reason to withdraw: the kernel goes on serving.
	leastStarts = 5
)

// Starts are the last starts of svcproxy, none of which ran for a minute. systemd restarts a svcproxy that crashes
// again and again each time, so no unit notices that nothing follows the health of endpoints. Its zero is none.
type Starts struct {
	Count int       `json:"count"`
	Since time.Time `json:"since"` // the first
	Last  time.Time `json:"last"`
}

// Next adds a start.
func (s Starts) Next(now time.Time) Starts {
	if s.Count == 0 || now.Sub(s.Last) > forgotten || now.Before(s.Last) {
		return Starts{1, now, now}
	}
	return Starts{s.Count + 1, s.Since, now}
}

// Crashing reports whether svcproxy crashes again and again: then it announces nothing, before it has run for a minute.
// The series must have lasted for a minute, too.
func (s Starts) Crashing() bool { return s.Count >= leastStarts && s.Last.Sub(s.Since) >= steady }

// Good is when the last start counts as good.
func (s Starts) Good() time.Time { return s.Last.Add(steady) }

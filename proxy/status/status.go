package status

import (
	"net/netip"
	"time"
)

// Status is how svcproxy stands. Its JSON form is an interface: fields are added,
// and never renamed or removed. Lists are never null. Times are RFC 3339 in UTC,
// fields named ...Seconds are seconds.
type Status struct {
	Time   time.Time `json:"time"` // when this was asked for
	Daemon Daemon    `json:"daemon"`
	// Healthy: nothing to be programmed has waited for twice the sync period.
	Healthy bool `json:"healthy"`
	// Problems say what is not as it should be, one line each; none when all is.
	Problems []string `json:"problems"`
	// Warnings say what may keep traffic away although all is programmed.
	Warnings []string `json:"warnings"`
	Sync     Sync     `json:"sync"`
	Sources  []Source `json:"sources"`
	// Faults are the objects that the kernel refuses, at most maxFaults of them;
	// Totals counts all.
	Faults    []Fault    `json:"faults"`
	Conflicts []Conflict `json:"conflicts"`
	// Drains are the endpoints on their way out, those with the most connections
	// first, at most maxDrains of them; Totals counts all real servers.
	Drains    []Draining `json:"drains"`
	Totals    Totals     `json:"totals"`
	Conntrack *Conntrack `json:"conntrack,omitempty"` // nil when it is not known
	// Services are sorted by name, those that were left out among them.
	Services []Service `json:"services"`
}

// Daemon is what a run of svcproxy knows of itself from its start on.
type Daemon struct {
	Version string    `json:"version"`
	Node    string    `json:"node"` // its name
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	// Mode is the one in use, and ModeReason why: "" when it was asked for.
	Mode       string `json:"mode"`
	ModeReason string `json:"modeReason,omitempty"`
	IPTables   string `json:"iptables"` // the back end: "iptables v1.8.9 (nf_tables)"
	Config     Config `json:"config"`
}

// Config is the configuration file, and how it stands.
type Config struct {
	File string `json:"file"` // "" = defaults and flags alone
	// Error is what is wrong with the file as it is now, "" if nothing is; while
	// there is one the last good configuration is in use.
	Error string    `json:"error,omitempty"`
	Since time.Time `json:"since,omitzero"` // of Error
	// Restart are the changes in the file that wait for a restart.
	Restart []string `json:"restart,omitempty"`
}

// Sync is the last one, and the last that changed something.
type Sync struct {
	Cause     string    `json:"cause"` // "" = there was none yet
	Start     time.Time `json:"start,omitzero"`
	Seconds   float64   `json:"seconds"`
	Succeeded time.Time `json:"succeeded,omitzero"` // when the last one without an error ended
	Error     string    `json:"error,omitempty"`
	// Since when syncs fail, and how many in a row have.
	Since    time.Time `json:"since,omitzero"`
	Failures int       `json:"failures"`
	// Waiting are the sources that have not delivered yet; nothing is removed
	// while there are any.
	Waiting []string `json:"waiting"`
	// Running is the sync that goes on, if one does.
	Running *Running `json:"running,omitempty"`
	Change  *Change  `json:"change,omitempty"`
	Drift   *Change  `json:"drift,omitempty"` // the last that repaired drift
}

// Running is a sync that is not over.
type Running struct {
	Cause   string  `json:"cause"`
	Seconds float64 `json:"seconds"` // since it began
	// Done of the Steps of its plan; 0 of 0 before there is one.
	Done  int    `json:"done"`
	Steps int    `json:"steps"`
	Text  string `json:"text"` // the same in words

	long bool
}

// Change is a sync that changed something. The times are zero where they are not
// known: no source is behind a sync that found drift.
type Change struct {
	Cause        string    `json:"cause"`
	Add          int       `json:"add"`
	Change       int       `json:"change"`
	Remove       int       `json:"remove"`
	Seen         time.Time `json:"seen,omitzero"`   // the event
	Parsed       time.Time `json:"parsed,omitzero"` // the table
	Planned      time.Time `json:"planned"`
	Acknowledged time.Time `json:"acknowledged"` // by the kernel
	// TotalSeconds are from the first of these to the last.
	TotalSeconds float64 `json:"totalSeconds"`
}

// Source is one of those that say what is to be served.
type Source struct {
	Name string `json:"name"`
	// Delivered: it has given a complete table.
	Delivered bool `json:"delivered"`
	// Progress is how far its first reading is, in words; "" if that is not known or over.
	Progress string `json:"progress,omitempty"`
	// Errors are what is wrong with what it read last, one line each, at most
	// maxSourceErrors of them.
	Errors []string  `json:"errors"`
	Since  time.Time `json:"since"` // when it last became good or bad
	// Stale are the refused files of which content of an earlier run is served.
	Stale []Stale `json:"stale"`
	// Unserved are the refused files of which nothing is served.
	Unserved []string `json:"unserved"`
}

// Stale is a refused file, and when what is served of it was last good.
type Stale struct {
	File string    `json:"file"`
	Good time.Time `json:"good"`
}

// Fault is an object that the kernel refuses.
type Fault struct {
	Op      string    `json:"op"`                // as in a plan: "+ -a -t 10.96.0.1:80 -r 10.2.0.1:8080 -m -w 1"
	Service string    `json:"service,omitempty"` // "" when it is about none, or all
	Error   string    `json:"error"`
	Since   time.Time `json:"since"`
	Count   int       `json:"count"` // how often it was tried
}

// Conflict is a wanted virtual server that somebody else has made, or one whose VIP
// another host has.
type Conflict struct {
	Service string         `json:"service,omitempty"`
	Address netip.AddrPort `json:"address"`
	Proto   string         `json:"protocol"`
	Text    string         `json:"text"`
}

// Totals are sums over all services.
type Totals struct {
	Services  int     `json:"services"` // wanted, those that serve nothing included
	LeftOut   int     `json:"leftOut"`
	Virtuals  int     `json:"virtuals"`
	Reals     int     `json:"reals"`
	Draining  int     `json:"draining"`
	Empty     int     `json:"withoutBackends"` // services
	Barred    int     `json:"barred"`          // warnings about a firewall, the first ones
	Missing   int     `json:"missing"`         // services of which the kernel lacks something
	Faults    int     `json:"faults"`
	Active    uint64  `json:"active"`
	Inactive  uint64  `json:"inactive"`
	Traffic   Traffic `json:"traffic"`
	VIPs      int     `json:"vips"`       // bound as addresses
	RoutedVIP int     `json:"routedVIPs"` // made local by routes
}

// Conntrack is how full the connection tracking table is.
type Conntrack struct {
	Count uint64 `json:"count"`
	Max   uint64 `json:"max"`
}

// Traffic is counted by the kernel since the virtual server was made.
type Traffic struct {
	Connections uint64 `json:"connections"`
	InPackets   uint64 `json:"inPackets"`
	OutPackets  uint64 `json:"outPackets"`
	InBytes     uint64 `json:"inBytes"`
	OutBytes    uint64 `json:"outBytes"`
}

// Plus is the sum.
func (t Traffic) Plus(o Traffic) Traffic {
	return Traffic{
		t.Connections + o.Connections, t.InPackets + o.InPackets, t.OutPackets + o.OutPackets,
		t.InBytes + o.InBytes, t.OutBytes + o.OutBytes,
	}
}

// WithoutEndpoints is the status without its longest part: the counts of
// endpoints and of connections stay.
func (s Status) WithoutEndpoints() Status {
	services := make([]Service, len(s.Services))
	for i, svc := range s.Services {
		svc.Endpoints = []Endpoint{}
		services[i] = svc
	}
	s.Services = services
	return s
}

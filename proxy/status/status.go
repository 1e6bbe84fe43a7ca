package status

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/proxy/condition"
	"github.com/svcproxy/svcproxy/sources"
)

// Status describes a running svcproxy. Its JSON form is stable: releases add fields
// and never rename or remove one. Lists are never null. Times are RFC 3339 in UTC;
// fields named ...Seconds are seconds.
type Status struct {
	Time   time.Time `json:"time"` // when the status was asked for
	Daemon Daemon    `json:"daemon"`
	// Healthy: no change has waited for more than twice the sync period.
	Healthy bool `json:"healthy"`
	// Problems say why svcproxy is degraded, one line each; empty if it is not.
	Problems []string `json:"problems"`
	// Down names endpoints that are down by their checks, since when and why, a line each, the first maxDown. Where
	// others serve it is no problem, so that the exit code does not change with each restart of a backend.
	Down []string `json:"down"`
	// Conditions are what is wrong and stands for a while; problems has their lines, too. Nil if there are none.
	Conditions []condition.Condition `json:"conditions,omitempty"`
	// Warnings say what may keep traffic away although everything is programmed.
	Warnings []string `json:"warnings"`
	// Uncounted: rules balance connections, and nothing counts them. The JSON then has
	// neither active, inactive nor traffic.
	Uncounted bool `json:"uncounted,omitempty"`
	// NewOnly: but new connections are counted, in mode nftables. Traffic has these alone.
	NewOnly bool     `json:"newOnly,omitempty"`
	Sync    Sync     `json:"sync"`
	Sources []Source `json:"sources"`
	// Faults are objects that the kernel refuses, at most maxFaults. Totals counts
	// all of them.
	Faults    []Fault    `json:"faults"`
	Conflicts []Conflict `json:"conflicts"`
	// Drains are the draining endpoints, those with the most connections first, at
	// most maxDrains. Totals counts all draining real servers.
	Drains    []Draining `json:"drains"`
	Totals    Totals     `json:"totals"`
	Conntrack *Conntrack `json:"conntrack,omitempty"` // nil if it is not known
	// Health is nil if there are no health checks, no orders of the operator and no backups.
	Health *Health `json:"health,omitempty"`
	// ConnSync are the daemons of connection sync; absent if none is configured.
	ConnSync []ConnSync `json:"connectionSync,omitempty"`
	// Digest is that of all services; "" without virtual servers in IPVS.
	Digest string `json:"digest,omitempty"`
	// Announced are the VIPs that routing daemons may be told of; nil if there are none.
	Announced []Announced `json:"announced,omitempty"`
	// Services are sorted by name. They include those that were left out.
	Services []Service `json:"services"`
}

// Daemon is what svcproxy knows about itself from its start.
type Daemon struct {
	Version string    `json:"version"`
	Node    string    `json:"node"` // its name
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	// Mode is the mode in use. ModeReason says why; "" if the configuration names it.
	Mode       string `json:"mode"`
	ModeReason string `json:"modeReason,omitempty"`
	// ConfiguredMode is the mode that the configuration names; "" is this kernel's best mode.
	ConfiguredMode string `json:"configuredMode,omitempty"`
	// Fallbacks are the preferred modes that this machine lacks something for.
	Fallbacks []Fallback `json:"fallbacks,omitempty"`
	// AvailableMode is one of these modes that this machine has everything for by now; "" if none is known. A restart
	// uses it.
	AvailableMode string `json:"availableMode,omitempty"`
	IPTables      string `json:"iptables"` // version and back end: "iptables v1.8.9 (nf_tables)"
	// Rules is "nftables" if that writes the rules, without iptables and ipset; else "".
	Rules  string `json:"rules,omitempty"`
	Config Config `json:"config"`
	// Files are the patterns of services files.
	Files []string `json:"files,omitempty"`
	// Drain is the operator's order that sends load balancers away; nil without one.
	Drain *NodeDrain `json:"drain,omitempty"`
}

// Fallback is a mode that could not be used at the start.
type Fallback struct {
	Mode   string `json:"mode"`
	Reason string `json:"reason"` // what is missing
	Hint   string `json:"hint"`   // what brings it
}

// SteppedDown says that preferred modes could not be used, and what brings them; "" if the mode is the best
// or was asked for.
func (d *Daemon) SteppedDown() string {
	if len(d.Fallbacks) == 0 {
		return ""
	}
	text := "mode " + d.Mode
	for i, f := range d.Fallbacks {
		if i > 0 {
			text += ";"
		}
		text += fmt.Sprintf(" instead of %s: %s", f.Mode, f.Reason)
		if f.Hint != "" {
			text += " (" + f.Hint + ")"
		}
	}
	return text
}

// Lacks says what the preferred modes lacked at the start; "" if the mode is the best or was asked for.
func (d *Daemon) Lacks() string {
	text := make([]string, len(d.Fallbacks))
	for i, f := range d.Fallbacks {
		text[i] = f.Mode + ": " + f.Reason
	}
	return strings.Join(text, "; ")
}

// NodeDrain is who drained the node, and why.
type NodeDrain struct {
	Since time.Time `json:"since"`
	By    string    `json:"by"` // the name of the user
	UID   uint32    `json:"uid"`
	Why   string    `json:"why,omitempty"`
}

// String returns `drained by root: "kernel upgrade"`.
func (d *NodeDrain) String() string {
	text := "drained by " + d.By
	if d.Why != "" {
		text += fmt.Sprintf(": %q", d.Why)
	}
	return text
}

// Config is the configuration file and its state.
type Config struct {
	File string `json:"file"` // "" = defaults and flags only
	// Error is what is wrong with the file now, "" if nothing is. While there is an
	// error, the last good configuration is in use.
	Error string    `json:"error,omitempty"`
	Since time.Time `json:"since,omitzero"` // of Error
	// Restart are the changes in the file that need a restart.
	Restart []string `json:"restart,omitempty"`
}

// Sync is the last sync, the one in progress, and the last that changed something.
type Sync struct {
	Cause     string    `json:"cause"` // "" = no sync has ended yet
	Start     time.Time `json:"start,omitzero"`
	Seconds   float64   `json:"seconds"`
	Succeeded time.Time `json:"succeeded,omitzero"` // when the last successful sync ended
	Error     string    `json:"error,omitempty"`
	// Since says since when syncs fail, and Failures how many in a row.
	Since    time.Time `json:"since,omitzero"`
	Failures int       `json:"failures"`
	// Waiting are the sources that have not delivered yet. Nothing is removed while
	// there are any.
	Waiting []string `json:"waiting"`
	// Running is the sync in progress, if any.
	Running *Running `json:"running,omitempty"`
	Change  *Change  `json:"change,omitempty"`
	Drift   *Change  `json:"drift,omitempty"` // the last sync that repaired drift
}

// Running is a sync in progress.
type Running struct {
	Cause   string  `json:"cause"`
	Seconds float64 `json:"seconds"` // since it began
	// Done counts the Steps of its plan that are done. Both are 0 before there is a
	// plan.
	Done  int `json:"done"`
	Steps int `json:"steps"`
	// VIPs of NewVIPs have virtual servers by now. Both are 0 if the plan adds few VIPs.
	VIPs    int    `json:"vips"`
	NewVIPs int    `json:"newVIPs"`
	Text    string `json:"text"` // the same in words

	long bool
}

// Change is a sync that changed something. Seen and Parsed are zero if no source
// was behind it, as when it repaired drift.
type Change struct {
	Cause        string    `json:"cause"`
	Add          int       `json:"add"`
	Change       int       `json:"change"`
	Remove       int       `json:"remove"`
	Seen         time.Time `json:"seen,omitzero"`   // the event
	Parsed       time.Time `json:"parsed,omitzero"` // the table
	Planned      time.Time `json:"planned"`
	Acknowledged time.Time `json:"acknowledged"` // by the kernel
	// TotalSeconds is the time from the first of these to the last.
	TotalSeconds float64 `json:"totalSeconds"`
}

// Source is where a part of the table comes from.
type Source struct {
	Name string `json:"name"`
	// Delivered: the source has delivered a complete table.
	Delivered bool `json:"delivered"`
	// Progress is how far its first reading is, in words; "" if unknown or over.
	Progress string `json:"progress,omitempty"`
	// Errors say what is wrong with what the source read last, one line each, at most
	// maxSourceErrors.
	Errors []string  `json:"errors"`
	Since  time.Time `json:"since"` // when the source last became good or bad
	// Stale are the refused files that are served as they were in an earlier run.
	Stale []Stale `json:"stale"`
	// Unserved are the refused files of which nothing is served.
	Unserved []string `json:"unserved"`
	// Others are the services that the source leaves to other proxies; nil without any.
	Others *sources.Others `json:"others,omitempty"`
}

// Stale is a refused file, and when the content that is served was valid.
type Stale struct {
	File string    `json:"file"`
	Good time.Time `json:"good"`
}

// Fault is an op that the kernel refuses.
type Fault struct {
	Op      string    `json:"op"`                // as in a plan: "+ -a -t 10.96.0.1:80 -r 10.2.0.1:8080 -m -w 1"
	Service string    `json:"service,omitempty"` // "" if it is about no service, or about all
	Error   string    `json:"error"`
	Since   time.Time `json:"since"`
	Count   int       `json:"count"` // tries
}

// Conflict is a wanted virtual server that another program made, or one whose VIP
// another host has.
type Conflict struct {
	Service string         `json:"service,omitempty"`
	Address netip.AddrPort `json:"address"`
	Proto   string         `json:"protocol"`
	Text    string         `json:"text"`
}

// Totals are sums over all services.
type Totals struct {
	Services  int     `json:"services"` // in the table, including those without backends
	LeftOut   int     `json:"leftOut"`
	Virtuals  int     `json:"virtuals"`
	Reals     int     `json:"reals"`
	Draining  int     `json:"draining"`
	Empty     int     `json:"withoutBackends"` // services
	Barred    int     `json:"barred"`          // how many of Status.Warnings, the first ones, are about a firewall
	Missing   int     `json:"missing"`         // services
	Faults    int     `json:"faults"`
	Active    Count   `json:"active,omitzero"`
	Inactive  Count   `json:"inactive,omitzero"`
	Traffic   Traffic `json:"traffic,omitzero"`
	VIPs      int     `json:"vips"`       // bound as addresses
	RoutedVIP int     `json:"routedVIPs"` // local by routes
}

// Conntrack is the size and the limit of the conntrack table.
type Conntrack struct {
	Count uint64 `json:"count"`
	Max   uint64 `json:"max"`
}

// Traffic is what the kernel counted since the virtual server was made.
type Traffic struct {
	Connections uint64 `json:"connections"`
	InPackets   Count  `json:"inPackets,omitzero"`
	OutPackets  Count  `json:"outPackets,omitzero"`
	InBytes     Count  `json:"inBytes,omitzero"`
	OutBytes    Count  `json:"outBytes,omitzero"`
}

// Plus returns the sum.
func (t Traffic) Plus(o Traffic) Traffic {
	return Traffic{
		t.Connections + o.Connections, t.InPackets + o.InPackets, t.OutPackets + o.OutPackets,
		t.InBytes + o.InBytes, t.OutBytes + o.OutBytes,
	}
}

// WithoutEndpoints returns the status without the lists of endpoints, its longest
// part. The counts of endpoints and connections stay.
func (s Status) WithoutEndpoints() Status {
	services := make([]Service, len(s.Services))
	for i, svc := range s.Services {
		svc.Endpoints = []Endpoint{}
		services[i] = svc
	}
	s.Services = services
	return s
}

package kernel

import "strconv"

// Timeouts are how long IPVS keeps a connection on which nothing comes any more,
// in seconds: an established one over TCP, one that a side has closed, and one
// over UDP. In a wanted state and in an op 0 leaves a timeout as it is; in a
// reading it is one that is not known.
type Timeouts struct{ TCP, TCPFin, UDP uint32 }

// LinuxTimeouts are what IPVS begins with, in every network namespace anew
// (net/netfilter/ipvs, tcp_timeouts and udp_timeouts).
var LinuxTimeouts = Timeouts{TCP: 900, TCPFin: 120, UDP: 300}

// The timeouts have no sysctl; where parameters go by name they have that of
// their key in the configuration.
const (
	tcpTimeout    = "ipvs.tcpTimeout"
	tcpFinTimeout = "ipvs.tcpFinTimeout"
	udpTimeout    = "ipvs.udpTimeout"
)

// field is the timeout of a name, nil if it is none.
func (t *Timeouts) field(name string) *uint32 {
	switch name {
	case tcpTimeout:
		return &t.TCP
	case tcpFinTimeout:
		return &t.TCPFin
	case udpTimeout:
		return &t.UDP
	}
	return nil
}

// IsTimeout says whether a parameter's name is that of a timeout, which is not
// below /proc/sys.
func IsTimeout(name string) bool { return new(Timeouts).field(name) != nil }

// Parameters are the timeouts that are not 0, by name, as Saved has them.
func (t Timeouts) Parameters() []Sysctl {
	var all []Sysctl
	for _, name := range [...]string{tcpFinTimeout, tcpTimeout, udpTimeout} { // sorted
		if seconds := *t.field(name); seconds != 0 {
			all = append(all, Sysctl{Name: name, Value: strconv.FormatUint(uint64(seconds), 10)})
		}
	}
	return all
}

// Over are the timeouts of base with those of t, where it has any, in their
// place.
func (t Timeouts) Over(base Timeouts) Timeouts {
	for _, p := range t.Parameters() {
		*base.field(p.Name) = *t.field(p.Name)
	}
	return base
}

// unlike are the timeouts that are set, and not what they are in have.
func (t Timeouts) unlike(have Timeouts) Timeouts {
	for _, p := range t.Parameters() {
		if f := t.field(p.Name); *f == *have.field(p.Name) {
			*f = 0
		}
	}
	return t
}

// diffTimeouts is diffSysctls for IPVS's timeouts, which are one object since
// the kernel is asked and told of all of them at once.
func (d *differ) diffTimeouts() {
	want, have := d.want.Timeouts, d.have.Timeouts
	if to := want.unlike(have); to != (Timeouts{}) {
		d.change(setSysctls, have, to)
	}
	if d.hold() {
		return
	}
	var back Timeouts
	for _, s := range d.have.Saved {
		to := back.field(s.Name)
		if to == nil || *want.field(s.Name) != 0 || s.Ours == s.Before {
			continue
		}
		before, err := strconv.ParseUint(s.Before, 10, 32)
		// A value that is no longer ours was set by somebody who meant it.
		if err == nil && strconv.FormatUint(uint64(*have.field(s.Name)), 10) == s.Ours {
			*to = uint32(before)
		}
	}
	if back != (Timeouts{}) {
		d.change(restoreSysctls, have, back)
	}
}

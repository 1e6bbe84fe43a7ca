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

// Field is the timeout of a name, nil if it is none.
func (t *Timeouts) Field(name string) *uint32 {
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
func IsTimeout(name string) bool { return new(Timeouts).Field(name) != nil }

// Parameters are the timeouts that are not 0, by name, as Saved has them.
func (t Timeouts) Parameters() []Sysctl {
	var all []Sysctl
	for _, name := range [...]string{tcpFinTimeout, tcpTimeout, udpTimeout} { // sorted
		if seconds := *t.Field(name); seconds != 0 {
			all = append(all, Sysctl{Name: name, Value: strconv.FormatUint(uint64(seconds), 10)})
		}
	}
	return all
}

// Over are the timeouts of base with those of t, where it has any, in their
// place.
func (t Timeouts) Over(base Timeouts) Timeouts {
	for _, p := range t.Parameters() {
		*base.Field(p.Name) = *t.Field(p.Name)
	}
	return base
}

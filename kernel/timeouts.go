package kernel

import (
	"fmt"
	"strconv"
	"strings"
)

// Timeouts are how long IPVS keeps an idle connection, in seconds: an established
// TCP connection, one that a side has closed, and one over UDP. 0 leaves a timeout
// as it is, in a wanted state and in an op; in a reading it is unknown.
type Timeouts struct{ TCP, TCPFin, UDP uint32 }

// Kind is KindTimeouts.
func (Timeouts) Kind() Kind { return KindTimeouts }

// String is ipvsadm's: --set TCP TCPFIN UDP. 0 leaves a timeout as it is.
func (t Timeouts) String() string { return fmt.Sprintf("--set %d %d %d", t.TCP, t.TCPFin, t.UDP) }

func appendTimeouts(b *strings.Builder, o *Observed) {
	if o.Timeouts != (Timeouts{}) {
		b.WriteString(o.Timeouts.String() + "\n")
	}
}

// timeouts reads: --set TCP TCPFIN UDP.
func (p *parser) timeouts(f []string) error {
	if len(f) != 4 {
		return fmt.Errorf("want: --set TCP TCPFIN UDP")
	}
	t := &p.o.Timeouts
	for i, to := range []*uint32{&t.TCP, &t.TCPFin, &t.UDP} {
		n, err := strconv.ParseUint(f[i+1], 10, 31)
		if err != nil {
			return fmt.Errorf("timeout %q: want seconds", f[i+1])
		}
		*to = uint32(n)
	}
	return nil
}

// LinuxTimeouts are the defaults of every network namespace
// (net/netfilter/ipvs, tcp_timeouts and udp_timeouts).
var LinuxTimeouts = Timeouts{TCP: 900, TCPFin: 120, UDP: 300}

// The timeouts are no sysctls. Where parameters have names, a timeout has that of
// its key in the configuration.
const (
	tcpTimeout    = "ipvs.tcpTimeout"
	tcpFinTimeout = "ipvs.tcpFinTimeout"
	udpTimeout    = "ipvs.udpTimeout"
)

// Field returns the timeout of a name, nil if there is none.
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

// IsTimeout reports whether a parameter's name is that of a timeout, which is not
// below /proc/sys.
func IsTimeout(name string) bool { return new(Timeouts).Field(name) != nil }

// Parameters returns the timeouts that are not 0, sorted by name, as Saved has them.
func (t Timeouts) Parameters() []Sysctl {
	var all []Sysctl
	for _, name := range [...]string{tcpFinTimeout, tcpTimeout, udpTimeout} { // sorted
		if seconds := *t.Field(name); seconds != 0 {
			all = append(all, Sysctl{Name: name, Value: strconv.FormatUint(uint64(seconds), 10)})
		}
	}
	return all
}

// Over returns base with those timeouts replaced that t sets.
func (t Timeouts) Over(base Timeouts) Timeouts {
	for _, p := range t.Parameters() {
		*base.Field(p.Name) = *t.Field(p.Name)
	}
	return base
}

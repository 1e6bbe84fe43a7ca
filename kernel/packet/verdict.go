package packet

import (
	"fmt"
	"math"
	"net/netip"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// Fate is where a packet ends.
type Fate uint8

// The fates.
const (
	Dropped   Fate = iota // dropped without an answer
	Rejected              // a rule answers with an ICMP error
	Refused               // a virtual server without a usable real server answers with an ICMP error
	Balanced              // the real servers of a virtual server, or of a service's chains
	Host                  // the node itself: a listener there may answer
	Forwarded             // on to its destination
)

var fateNames = [...]string{"dropped", "rejected", "refused", "balanced", "host", "forwarded"}

func (f Fate) String() string { return fateNames[f] }

// Masquerade reports whether and why a packet leaves with the node's address as its source.
type Masquerade uint8

// The reasons.
const (
	Kept     Masquerade = iota // it keeps its source
	ByMark                     // a rule marked it
	Hairpin                    // its real server is its source
	AsBefore                   // as for the first packet of its connection, which is not known here
)

var masqueradeNames = [...]string{"source kept", "masqueraded", "masqueraded as hairpin", "source as before"}

func (m Masquerade) String() string { return masqueradeNames[m] }

// Way is what happens to a packet that is balanced to one real server: Balanced, unless
// a later rule stops it.
type Way struct {
	Real       netip.AddrPort
	Weight     uint32
	Forward    kernel.Forward
	Fate       Fate
	Masquerade Masquerade
	// Chance is the probability that rules of nat choose the way. It is 0 where IPVS
	// chooses, by its scheduler and the weights.
	Chance float64
	Mark   uint32 // the firewall mark of the packet on its way to the real server
}

// Verdict is what happens to a packet.
type Verdict struct {
	Fate Fate
	// Virtual is the virtual server that took or refused it, or the destination that a
	// rule of nat replaced, or zero.
	Virtual kernel.VirtualKey
	// Ways has the path to each real server that the virtual server, or the rules of nat,
	// may choose, in their order.
	Ways []Way
	// Masquerade of a packet that is not balanced.
	Masquerade Masquerade
	// Steps has a line for each hook and rule on the path, and why the rule applies or
	// not.
	Steps []string
}

// String is the verdict in one line, without its steps:
//
//	real 10.2.1.10:8080, 10.2.2.10:8080 weight 3; masqueraded
//	real 10.2.1.10:8080 (masqueraded as hairpin), 10.2.2.10:8080 (source kept)
//	real 10.2.1.10:8080 25%, 10.2.2.10:8080 75%; source kept
//	real 10.2.1.10:80, 10.2.2.10:80; direct, source kept
//	host
//	dropped
func (v Verdict) String() string {
	switch v.Fate {
	case Balanced:
		return v.waysString()
	case Forwarded:
		return v.Fate.String() + "; " + v.Masquerade.String()
	}
	return v.Fate.String()
}

func (v Verdict) waysString() string {
	alike, even := true, true
	for _, w := range v.Ways {
		alike = alike && w.end() == v.Ways[0].end()
		even = even && math.Abs(w.Chance-v.Ways[0].Chance) < 1e-6
	}
	var b strings.Builder
	for i, w := range v.Ways {
		b.WriteString([]string{"real ", ", "}[min(i, 1)])
		b.WriteString(w.Real.String())
		if w.Weight != 1 {
			fmt.Fprintf(&b, " weight %d", w.Weight)
		}
		if !even {
			fmt.Fprintf(&b, " %.0f%%", 100*w.Chance)
		}
		if !alike {
			b.WriteString(" (" + w.end() + ")")
		}
	}
	if alike {
		b.WriteString("; " + v.Ways[0].end())
	}
	return b.String()
}

// Path is Steps without the rules that do not apply, and each line once: other draws and
// other real servers repeat most of them.
func (v Verdict) Path() []string {
	var path []string
	seen := map[string]bool{orElse: true}
	for _, line := range v.Steps {
		if !seen[line] && !strings.Contains(line, doesNot) {
			path = append(path, line)
		}
		seen[line] = true
	}
	return path
}

// end is the part in which ways differ.
func (w Way) end() string {
	if w.Fate != Balanced {
		return w.Fate.String()
	}
	return forwards[w.Forward] + w.Masquerade.String()
}

var forwards = map[kernel.Forward]string{kernel.Direct: "direct, ", kernel.Tunnel: "tunnel, "}

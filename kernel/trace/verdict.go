package trace

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// Fate is where a packet ends.
type Fate uint8

// The fates.
const (
	Dropped   Fate = iota // nowhere, and nobody is told
	Rejected              // a rule answers with an ICMP error
	Refused               // a virtual server without a usable real server answers with an ICMP error
	Balanced              // a virtual server's real servers
	Host                  // the node itself: whatever listens there
	Forwarded             // on to its destination
)

var fateNames = [...]string{"dropped", "rejected", "refused", "balanced", "host", "forwarded"}

func (f Fate) String() string { return fateNames[f] }

// Masquerade is whether a packet leaves with the node's address as its source, and why.
type Masquerade uint8

// The reasons.
const (
	Kept     Masquerade = iota // it keeps its source
	ByMark                     // a rule marked it
	Hairpin                    // its destination is, by now, its source
	AsBefore                   // as the first packet of its connection, which is not known here
)

var masqueradeNames = [...]string{"source kept", "masqueraded", "masqueraded as hairpin", "source as before"}

func (m Masquerade) String() string { return masqueradeNames[m] }

// Way is what becomes of a packet that is balanced to one of the real servers: Balanced, unless a rule
// stops it after all.
type Way struct {
	Real       netip.AddrPort
	Weight     uint32
	Fate       Fate
	Masquerade Masquerade
}

// Verdict is what becomes of a packet.
type Verdict struct {
	Fate Fate
	// Virtual is the virtual server that took or refused it; else zero.
	Virtual kernel.VirtualKey
	// Ways are those to each real server that the virtual server may choose, in their order.
	Ways []Way
	// Masquerade of a packet that is not balanced.
	Masquerade Masquerade
	// Steps are what happened on the way, a line each: hooks, rules, why they apply or not.
	Steps []string
}

// String is the verdict in a line, without its steps:
//
//	real 10.2.1.10:8080, 10.2.2.10:8080 weight 3; masqueraded
//	real 10.2.1.10:8080 (masqueraded as hairpin), 10.2.2.10:8080 (source kept)
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
	alike := true
	for _, w := range v.Ways {
		alike = alike && w.end() == v.Ways[0].end()
	}
	var b strings.Builder
	for i, w := range v.Ways {
		b.WriteString([]string{"real ", ", "}[min(i, 1)])
		b.WriteString(w.Real.String())
		if w.Weight != 1 {
			fmt.Fprintf(&b, " weight %d", w.Weight)
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

// end is what differs between ways.
func (w Way) end() string {
	if w.Fate != Balanced {
		return w.Fate.String()
	}
	return w.Masquerade.String()
}

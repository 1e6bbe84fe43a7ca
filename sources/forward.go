package sources

import (
	"fmt"
	"slices"
	"strings"
)

// Forward says how packets reach the endpoints of a service.
type Forward string

// The forwarding methods. Masquerade replaces the destination, and replies pass this node. The others leave the packet
// as it is: the endpoints have the VIPs themselves and answer the client past this node. Direct sends it to the
// endpoint's MAC address, so the endpoint is in a network of this node. IPIP and GUE wrap it in IP, or in UDP and IP.
const (
	Masquerade Forward = "masquerade"
	Direct     Forward = "direct"
	IPIP       Forward = "ipip"
	GUE        Forward = "gue"
)

// Forwards are all forwarding methods.
var Forwards = []Forward{Masquerade, Direct, IPIP, GUE}

// CheckForward returns an error if there is no such forwarding method. "" is the default.
func CheckForward(f Forward) error {
	if f == "" || slices.Contains(Forwards, f) {
		return nil
	}
	words := make([]string, len(Forwards))
	for i, w := range Forwards {
		words[i] = string(w)
	}
	return fmt.Errorf("forward %q is not known, must be one of %s", f, strings.Join(words, ", "))
}

// Unchanged reports whether packets reach the endpoints with the client's address and the VIP.
func (f Forward) Unchanged() bool { return f != "" && f != Masquerade }

// Overhead is how many bytes a method adds to a packet: the outer IP header, and 8 of UDP with 4 of GUE.
func (f Forward) Overhead(v6 bool) int {
	n := 0
	switch f {
	case IPIP:
		n = 20
	case GUE:
		n = 20 + 8 + 4
	default:
		return 0
	}
	if v6 {
		n += 20
	}
	return n
}

// Forwarding returns how packets reach the endpoints on a node with this default. A service that names no method and
// changes a port is masqueraded: only masquerading can change it.
func (s *Service) Forwarding(node Forward) Forward {
	switch {
	case s.Forward != "":
		return s.Forward
	case node.Unchanged() && s.changesPort() == "":
		return node
	}
	return Masquerade
}

// changesPort returns which endpoint has another port than the service; "" if none has.
func (s *Service) changesPort() string {
	for at, p := range s.Ports {
		if p.TargetPort != p.Port {
			return fmt.Sprintf("targetPort %d differs from port %d", p.TargetPort, p.Port)
		}
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			own, serves := s.PortOf(e, at)
			switch {
			case !serves || own == p.Port:
			case s.FWMark != 0:
				return fmt.Sprintf("endpoint %s has port %d of its own", e.Addr, own)
			default:
				return fmt.Sprintf("port %d of endpoint %s differs from port %d", own, e.Addr, p.Port)
			}
		}
	}
	return ""
}

// forward applies the rules about forwarding.
func (v *validation) forward(s *Service) {
	if err := CheckForward(s.Forward); err != nil {
		v.refuse(s, "%v", err)
		return
	}
	if !s.Forward.Unchanged() {
		return
	}
	if why := s.changesPort(); why != "" {
		v.refuse(s, "forward = %q cannot change a port: %s", s.Forward, why)
	}
}

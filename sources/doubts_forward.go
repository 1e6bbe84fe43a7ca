package sources

import (
	"fmt"
	"slices"
)

// forward warns of a service that cannot have the node's forwarding method.
func (j *judgement) forward(s *Service) {
	if s.Forward == "" && j.host.Forward.Unchanged() {
		if why := s.changesPort(); why != "" {
			j.doubt(s, "it is masqueraded, not forwarded by %q, the node's default: %s; forward = %q says so", j.host.Forward,
				why, Masquerade)
		}
	}
}

// ethernetMTU is the size of packets that clients send.
const ethernetMTU = 1500

// tunnels warns once, not for each service, that packets of 1500 bytes do not fit into a tunnel.
func (j *judgement) tunnels(t Table) {
	if j.host.onlyMasquerades() {
		return
	}
	var first *Service
	n := 0
	for i := range t.Services.Len() {
		s := t.Services.At(i)
		if s.Origin.File == "" || !s.Type.Serves() || max(ethernetMTU, j.host.MTU) >= ethernetMTU+j.overhead(s) {
			continue
		}
		if n++; first == nil || s.Origin.compare(first.Origin) < 0 {
			first = s
		}
	}
	if n == 0 {
		return
	}
	others := ""
	if n > 1 {
		others = fmt.Sprintf(" (here and in %d more)", n-1)
	}
	by, bytes := first.Forwarding(j.host.Forward), j.overhead(first)
	j.doubt(first, "forward = %q adds %d bytes%s: clients that send packets of %d bytes must learn a smaller MTU by "+
		"ICMP; a larger MTU towards the endpoints, "+
		"or advmss %d on their routes to clients, spares that", by, bytes, others, ethernetMTU,
		ethernetMTU-bytes-tcpHeaders(first))
}

// overhead returns how many bytes are added to packets for a service.
func (j *judgement) overhead(s *Service) int {
	by := s.Forwarding(j.host.Forward)
	if by.Overhead(false) == 0 {
		return 0
	}
	return by.Overhead(hasIPv6(s.Endpoints))
}

func hasIPv6(endpoints []Endpoint) bool {
	return slices.ContainsFunc(endpoints, func(e Endpoint) bool { return e.Addr.Is6() })
}

// tcpHeaders is the size of the headers of TCP and IP, the larger where there are both families.
func tcpHeaders(s *Service) int {
	if hasIPv6(s.Endpoints) {
		return 60
	}
	return 40
}

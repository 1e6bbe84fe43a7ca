package sources

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Name is a DNS name in the place of endpoints. Package dns finds the addresses that it has.
type Name struct {
	Host     string // in lower case, without the last dot
	SRV      bool   // its SRV records have ports, weights and, by priority, backups
	Weighted bool   // the weight of Endpoint counts, not those of SRV records
	Endpoint        // what each endpoint of the name has, but for the address
}

// MostAddresses is how many addresses of each family a name has at most; others are left out.
const MostAddresses = 64

// String returns the name as it is shown: "app.example.net", or "SRV _web._tcp.example.net".
func (n *Name) String() string {
	if n.SRV {
		return "SRV " + n.Host
	}
	return n.Host
}

// NameAddress is one of those of a name. Port, Weight and Backup are of an SRV record, else 0.
type NameAddress struct {
	Addr   netip.Addr
	Port   uint16
	Weight uint32
	Backup bool
}

// CheckHost says what is wrong with a DNS name. Labels may have underscores, as in _web._tcp.example.net.
func CheckHost(name string) error {
	if len(name) == 0 || len(name) > 253 {
		return fmt.Errorf("%q is not a DNS name of 1 to 253 characters", name)
	}
	for label := range strings.SplitSeq(name, ".") {
		if !isLabel(strings.ToLower(strings.ReplaceAll(label, "_", "x"))) {
			return fmt.Errorf("%q is not a DNS name: %q is no label of letters, digits, '-' and '_'", name, label)
		}
	}
	return nil
}

// Families reports for which families of addresses a service needs its names: those of its VIPs.
func (s *Service) Families() (v4, v6 bool) {
	return s.LeadsTo(netip.IPv4Unspecified()), s.LeadsTo(netip.IPv6Unspecified())
}

// Resolved returns the service with the endpoints that its names have, besides those that are written. What no endpoint
// can be is left out, and a problem. An address that is written, or that an earlier name has, stays as it is there.
func (s *Service) Resolved(of func(*Name) []NameAddress) (resolved Service, left []Problem) {
	resolved = *s
	resolved.Endpoints = slices.Clone(s.Endpoints)
	for i := range s.Names {
		name := &s.Names[i]
		for _, a := range of(name) {
			e := name.at(a, s.Ports)
			why := unfit(a.Addr)
			switch {
			case why == "" && !s.LeadsTo(a.Addr):
				continue
			case why == "" && s.HasVIP(a.Addr) && loops(s, e):
				why = "is the service's own VIP and port"
			case why == "" && taken(resolved.Endpoints, &e):
				continue
			case why == "":
				resolved.Endpoints = append(resolved.Endpoints, e)
				continue
			}
			left = append(left, problem(s, "backend %s: %s %s: it is left out", name, a.Addr, why))
		}
	}
	SortStableFunc(resolved.Endpoints, func(a, b Endpoint) int { return a.Addr.Compare(b.Addr) })
	return resolved, left
}

// Unresolved returns the service without the endpoints of its names, as it is written.
func (s Service) Unresolved() Service {
	if len(s.Names) > 0 {
		s.Endpoints = filter(s.Endpoints, func(e Endpoint) bool { return e.Name == nil })
	}
	return s
}

// at returns the endpoint of a name at an address.
func (n *Name) at(a NameAddress, ports []Port) Endpoint {
	e := n.Endpoint
	e.Addr, e.Name = a.Addr, n
	if n.SRV {
		e.Backup = e.Backup || a.Backup
		if !n.Weighted {
			e.Weight = max(a.Weight, 1) // 0 is "rarely" in RFC 2782, and a drain here
		}
		e.Ports = make([]EndpointPort, len(ports))
		for i, p := range ports {
			e.Ports[i] = EndpointPort{Name: p.Name, Protocol: p.Protocol, Port: a.Port}
		}
	}
	return e
}

// taken reports whether an endpoint has the address and a port of another.
func taken(endpoints []Endpoint, e *Endpoint) bool {
	return slices.ContainsFunc(endpoints, func(o Endpoint) bool {
		return o.Addr == e.Addr && (len(o.Ports) == 0 || slices.ContainsFunc(o.Ports, func(p EndpointPort) bool {
			return slices.Contains(e.Ports, p)
		}))
	})
}

func sameNames(a, b []Name) bool {
	return identical(a, b) || slices.EqualFunc(a, b, func(a, b Name) bool {
		return a.Host == b.Host && a.SRV == b.SRV && a.Weighted == b.Weighted && sameEndpoint(a.Endpoint, b.Endpoint)
	})
}

// sameName reports whether endpoints are of the same name, or of none.
func sameName(a, b *Name) bool {
	return a == b || a != nil && b != nil && a.Host == b.Host && a.SRV == b.SRV
}

// Text is the DNS name alone, "" of nil.
func (n *Name) Text() string {
	if n == nil {
		return ""
	}
	return n.Host
}

// Place names an address for people: "10.0.0.1:8080", or with its DNS name "app.example.net (10.0.0.1:8080)".
func Place(name, addr string) string {
	if name == "" {
		return addr
	}
	return fmt.Sprintf("%s (%s)", name, addr)
}

package sources

import (
	"fmt"
	"sort"
)

// Size is what services come to when each of their addresses, ports and endpoints is written out. It is computed from
// numbers, so a text of some kilobytes can be refused before it takes gigabytes.
type Size struct {
	Virtuals int // virtual servers: VIPs times ports; a node port is one, a firewall mark two
	Reals    int // real servers: the endpoints of each virtual server
	Guards   int // VIPs times ports times loadBalancerSourceRanges
	Probes   int // endpoints with a health check, times the ports that it asks
}

// MostPorts and MostEndpoints are how many of each a service may have. Frontends number ports with 15 bits.
// IPVS walks over the endpoints of a virtual server for each new connection, so 100,000 are far more than
// anyone has.
const (
	MostPorts     = 10_000
	MostEndpoints = 100_000
)

// TooManyPorts says why a service with n ports is refused.
func TooManyPorts(n int) string {
	return fmt.Sprintf("%d ports, and a service has at most %d: fwmark instead of addresses and ports serves any number "+
		"of them", n, MostPorts)
}

// Most is the size of the largest table that is served, in all services together, and of the largest file. A real
// server takes 300 bytes of svcproxy's memory and as much of the kernel's, so these are some 600 MB. 25,000 targets of
// health checks every 5 s take a tenth of a processor (svcproxy-limits(7)), so 250,000 take one.
var Most = Size{Virtuals: 250_000, Reals: 1_000_000, Guards: 1_000_000, Probes: 250_000}

// mostRules is Most for mode iptables, where each real server and virtual server is a rule. The kernel takes
// 50,000 rules a second, and one change of rules at a time.
var mostRules = Size{Virtuals: 20_000, Reals: 100_000, Guards: 100_000, Probes: Most.Probes}

// most returns the size of the largest table that the node serves.
func (h *HostFacts) most() Size {
	if h.Mode == ModeIPTables {
		return mostRules
	}
	return Most
}

// Shape has the numbers that a Size is computed from.
type Shape struct {
	VIPs4, VIPs6           int
	Ports, NodePorts       int
	Endpoints4, Endpoints6 int
	Ranges                 int // loadBalancerSourceRanges
	Guarded                int // load balancer IPs, which these guard
	Mark                   bool
	Probed, ProbesPorts    bool // endpoints have a health check; it asks each port
}

// ShapeOf returns the shape of a service.
func ShapeOf(s *Service) Shape {
	var h Shape
	if !s.Type.Serves() {
		return h
	}
	h.Mark, h.Ports, h.Ranges = s.FWMark != 0, len(s.Ports), len(s.SourceRanges)
	for i := range s.Ports {
		if s.Ports[i].NodePort != 0 {
			h.NodePorts++
		}
	}
	for kind, a := range s.VIPs {
		if a.Is4() {
			h.VIPs4++
		} else {
			h.VIPs6++
		}
		if kind == KindLoadBalancerIP {
			h.Guarded++
		}
	}
	// Endpoints are sorted: IPv4 comes first.
	h.Endpoints4 = sort.Search(len(s.Endpoints), func(i int) bool { return !s.Endpoints[i].Addr.Is4() })
	h.Endpoints6 = len(s.Endpoints) - h.Endpoints4
	h.Probed, h.ProbesPorts = s.HealthCheck.probes()
	return h
}

// probes reports whether a health check probes endpoints at all, and each port of them.
func (c *HealthCheck) probes() (probed, ports bool) {
	if c == nil || c.Probe.Type == "" {
		return false, false
	}
	return true, c.Probe.Type != CheckPing && c.Probe.Port == 0 && c.Probe.PortName == ""
}

// Size returns what a service of the shape comes to.
func (h Shape) Size() Size {
	if h.Mark {
		return Size{Virtuals: 2, Reals: h.Endpoints4 + h.Endpoints6, Probes: h.probes()}
	}
	of4, of6 := h.VIPs4*h.Ports, h.VIPs6*h.Ports
	return Size{
		Virtuals: of4 + of6 + h.NodePorts,
		Reals:    of4*h.Endpoints4 + of6*h.Endpoints6 + h.NodePorts*(h.Endpoints4+h.Endpoints6),
		Guards:   h.Guarded * h.Ports * h.Ranges,
		Probes:   h.probes(),
	}
}

func (h Shape) probes() int {
	switch n := h.Endpoints4 + h.Endpoints6; {
	case !h.Probed:
		return 0
	case h.ProbesPorts:
		return n * h.Ports
	default:
		return n
	}
}

// SizeOf returns what a service comes to.
func SizeOf(s *Service) Size { return ShapeOf(s).Size() }

// Plus returns the sum of two sizes.
func (z Size) Plus(o Size) Size {
	return Size{z.Virtuals + o.Virtuals, z.Reals + o.Reals, z.Guards + o.Guards, z.Probes + o.Probes}
}

// minus returns the difference of two sizes.
func (z Size) minus(o Size) Size {
	return Size{z.Virtuals - o.Virtuals, z.Reals - o.Reals, z.Guards - o.Guards, z.Probes - o.Probes}
}

// within reports whether no number is larger than that of another size.
func (z Size) within(most Size) bool {
	return z.Virtuals <= most.Virtuals && z.Reals <= most.Reals && z.Guards <= most.Guards && z.Probes <= most.Probes
}

// share returns the largest part of another size's numbers, in millionths.
func (z Size) share(most Size) int {
	part := func(a, b int) int { return int(float64(a) / float64(b) * 1e6) }
	return max(part(z.Virtuals, most.Virtuals), part(z.Reals, most.Reals), part(z.Guards, most.Guards),
		part(z.Probes, most.Probes))
}

// Excess says why a service of this shape is too much where others come to a sum already: the product, the
// sum, the limit, and what would be right. It is "" if the service fits.
func (h Shape) Excess(others, most Size) string {
	own := h.Size()
	sum := others.Plus(own)
	for _, x := range []struct {
		what           string
		own, sum, most int
		factors, hint  string
	}{
		{"virtual servers", own.Virtuals, sum.Virtuals, most.Virtuals, h.fronts(), h.other()},
		{"real servers", own.Reals, sum.Reals, most.Reals, h.fronts() + " x " + Count(h.Endpoints4+h.Endpoints6, "endpoint"),
			h.other()},
		{"rules for source ranges", own.Guards, sum.Guards, most.Guards,
			Count(h.Guarded, "VIP") + " x " + Count(h.Ports, "port") + " x " +
				Count(h.Ranges, "range"), "give fewer and larger loadBalancerSourceRanges"},
		{"probes", own.Probes, sum.Probes, most.Probes, h.asked(), h.lessProbes()},
	} {
		switch {
		case x.sum <= x.most:
		case x.own == x.sum:
			return fmt.Sprintf("%s are %d %s, and at most %d are served: %s", x.factors, x.own, x.what, x.most, x.hint)
		default:
			return fmt.Sprintf("%s are %d %s, with those of other services %d, and at most %d are served: %s", x.factors, x.own,
				x.what, x.sum, x.most, x.hint)
		}
	}
	return ""
}

func (h Shape) fronts() string {
	text := Count(h.VIPs4+h.VIPs6, "VIP") + " x " + Count(h.Ports, "port")
	if h.NodePorts > 0 {
		text = fmt.Sprintf("(%s + %s)", text, Count(h.NodePorts, "node port"))
	}
	return text
}

func (h Shape) asked() string {
	text := Count(h.Endpoints4+h.Endpoints6, "endpoint")
	if h.ProbesPorts {
		text += " x " + Count(h.Ports, "port")
	}
	return text
}

func (h Shape) lessProbes() string {
	if h.ProbesPorts && h.Ports > 1 {
		return "a healthCheck with a port probes each endpoint once"
	}
	return "check fewer endpoints, or some of them from other nodes"
}

// other is what serves as many clients with less.
func (h Shape) other() string {
	if h.Ports > 1 && !h.Mark {
		return "fwmark instead of addresses and ports serves any number of ports with one virtual server"
	}
	return "serve fewer, or some of them on other nodes"
}

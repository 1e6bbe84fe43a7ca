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

	// Entries of the map of endpoints in mode nftables, and where the default scheduler is sh or mh.
	Slots, HashSlots int
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
var Most = Size{Virtuals: 250_000, Reals: 1_000_000, Guards: 1_000_000, Probes: 250_000, Slots: noLimit,
	HashSlots: noLimit}

// mostRules is Most for mode iptables, where each real server and virtual server is a rule. The kernel takes
// 50,000 rules a second, and one change of rules at a time.
var mostRules = Size{Virtuals: 20_000, Reals: 100_000, Guards: 100_000, Probes: Most.Probes,
	Slots: noLimit, HashSlots: noLimit}

// mostSlots is how many slots mode nftables has room for: one takes 110 bytes of svcproxy's memory and 100 of the
// kernel's. mostIntervals bounds its source ranges: the kernel takes quadratic time to remove some of them, in which
// no rules of nftables can be changed (Linux 6.18: 5,000 take 0.8 s, 20,000 take 7 s).
const (
	mostSlots     = 2_000_000
	mostIntervals = 20_000
)

// most returns the size of the largest table that the node serves.
func (h *HostFacts) most() Size {
	most := Most
	switch {
	case h.Mode == ModeIPTables:
		return mostRules
	case h.Mode != ModeNFTables:
	case hashesClients(h.Scheduler):
		most.Guards, most.HashSlots = mostIntervals, mostSlots
	default:
		most.Guards, most.Slots = mostIntervals, mostSlots
	}
	return most
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

	hashes         hashes
	parts4, parts6 int  // of the endpoints' weights
	local          bool // external traffic has policy Local
}

// Fronts returns how many addresses and ports a service has. A node port is one, at any number of node addresses.
func (h Shape) Fronts() int { return (h.VIPs4+h.VIPs6)*h.Ports + h.NodePorts }

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
	weight := func(e *Endpoint) uint32 { return e.Weight }
	h.parts4, h.parts6 = Parts(s.Endpoints[:h.Endpoints4], weight), Parts(s.Endpoints[h.Endpoints4:], weight)
	h.hashes, h.local = hashesOf(s), s.ExternalTrafficPolicy == Local
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
	z := Size{
		Virtuals: h.Fronts(),
		Reals:    of4*h.Endpoints4 + of6*h.Endpoints6 + h.NodePorts*(h.Endpoints4+h.Endpoints6),
		Guards:   h.Guarded * h.Ports * h.Ranges,
		Probes:   h.probes(),
	}
	z.HashSlots, z.Slots = h.slots()
	return z
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
func (z Size) Plus(o Size) Size { return z.plus(o, 1) }

// minus returns the difference of two sizes.
func (z Size) minus(o Size) Size { return z.plus(o, -1) }

func (z Size) plus(o Size, times int) Size {
	return Size{z.Virtuals + times*o.Virtuals, z.Reals + times*o.Reals, z.Guards + times*o.Guards,
		z.Probes + times*o.Probes, z.Slots + times*o.Slots, z.HashSlots + times*o.HashSlots}
}

// numbers lists the numbers of a size.
func (z Size) numbers() [6]int {
	return [...]int{z.Virtuals, z.Reals, z.Guards, z.Probes, z.Slots, z.HashSlots}
}

// within reports whether no number is larger than that of another size.
func (z Size) within(most Size) bool {
	limits := most.numbers()
	for i, n := range z.numbers() {
		if n > limits[i] {
			return false
		}
	}
	return true
}

// share returns the largest part of another size's numbers, in millionths.
func (z Size) share(most Size) (part int) {
	limits := most.numbers()
	for i, n := range z.numbers() {
		part = max(part, int(float64(n)/float64(limits[i])*1e6))
	}
	return part
}

// Excess says why a service of this shape is too much where others come to a sum already: the product, the
// sum, the limit, and what would be right. It is "" if the service fits.
func (h Shape) Excess(others, most Size) string {
	own := h.Size()
	sum := others.Plus(own)
	slots, lessSlots := h.perSlots(h.hashes == always)
	hashed, lessHashed := h.perSlots(h.hashes != never)
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
		{"slots of mode nftables", own.Slots, sum.Slots, most.Slots, slots, lessSlots},
		{"slots of mode nftables", own.HashSlots, sum.HashSlots, most.HashSlots, hashed, lessHashed},
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

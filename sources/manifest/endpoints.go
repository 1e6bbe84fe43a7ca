package manifest

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/sources"
)

// endpoints sets the service's endpoints from its slices, sorted by address. Slices overlap while their controller
// moves endpoints between them. Of equal endpoints a ready one counts, then one that is serving, then the one on this
// node, else that of the first slice by name.
func (c *converter) endpoints(parts []*EndpointSlice, node string) {
	if !slices.IsSortedFunc(parts, byName) {
		parts = slices.SortedStableFunc(slices.Values(parts), byName)
	}
	n := 0
	for _, part := range parts {
		n += len(part.Endpoints)
	}
	if n == 0 {
		return
	}
	found := make([]sources.Endpoint, 0, n)
	for _, part := range parts {
		found = c.slice(found, part)
	}
	sources.SortStableFunc(found, func(a, b sources.Endpoint) int {
		if order := a.Addr.Compare(b.Addr); order != 0 {
			return order
		}
		return cmp.Or(
			cmp.Compare(lacks(a.Ready), lacks(b.Ready)), cmp.Compare(lacks(a.Serving), lacks(b.Serving)),
			cmp.Compare(away(a, node), away(b, node)))
	})
	if found = distinct(found); len(found) > 0 {
		c.service.Endpoints = found
	}
}

func byName(a, b *EndpointSlice) int { return cmp.Compare(a.Metadata.Name, b.Metadata.Name) }

// lacks is 0 for a condition that holds, and 1 for one that does not.
func lacks(condition bool) int {
	if condition {
		return 0
	}
	return 1
}

// away is 0 for an endpoint on this node, and 1 for others.
func away(e sources.Endpoint, node string) int {
	if node != "" && e.NodeName == node {
		return 0
	}
	return 1
}

// slice appends the endpoints of one slice that serve any of the service's ports.
func (c *converter) slice(to []sources.Endpoint, part *EndpointSlice) []sources.Endpoint {
	if part.AddressType != "IPv4" && part.AddressType != "IPv6" {
		return to // host names
	}
	ports := c.portsOf(part)
	if len(ports) == 0 {
		return to
	}
	for i := range part.Endpoints {
		e := &part.Endpoints[i]
		if len(e.Addresses) == 0 {
			continue
		}
		a, clean, err := parseAddr(e.Addresses[0])
		if err != nil || a.Is4() != (part.AddressType == "IPv4") {
			c.refuse("endpoint %q of EndpointSlice %s left out: not an address of type %s", e.Addresses[0], part.Metadata.Name,
				part.AddressType)
			continue
		}
		c.legacy("endpoint", e.Addresses[0], clean)
		if c.service.LeadsTo(a) { // a slice of a family that the service no longer has may still exist
			to = append(to, endpoint(e, a, ports))
		}
	}
	return to
}

// portsOf returns where a slice's endpoints serve the service's ports, in the service's order. A port of a slice
// belongs to the service port of the same name and protocol. One without a number is ignored.
func (c *converter) portsOf(part *EndpointSlice) []sources.EndpointPort {
	ports := make([]sources.EndpointPort, 0, len(c.service.Ports))
	for _, p := range c.service.Ports {
		for _, own := range part.Ports {
			if own.Name == p.Name && cmp.Or(own.Protocol, "TCP") == p.Protocol.String() && own.Port > 0 && own.Port <= 65535 {
				ports = append(ports, sources.EndpointPort{Name: p.Name, Protocol: p.Protocol, Port: uint16(own.Port)})
				break
			}
		}
	}
	return ports
}

// endpoint returns an endpoint with its conditions resolved: k8s.io/api takes an absent ready or serving as true. All
// endpoints of a slice share ports.
func endpoint(e *Endpoint, a netip.Addr, ports []sources.EndpointPort) sources.Endpoint {
	return sources.Endpoint{
		Addr:        a,
		Ports:       ports,
		NodeName:    e.NodeName,
		Zone:        e.Zone,
		Weight:      sources.DefaultWeight,
		Ready:       or(e.Conditions.Ready, true),
		Serving:     or(e.Conditions.Serving, true),
		Terminating: or(e.Conditions.Terminating, false),
		Hints:       sources.HintsOf(names(e.Hints.ForNodes), names(e.Hints.ForZones)),
	}
}

func or(given *bool, otherwise bool) bool {
	if given == nil {
		return otherwise
	}
	return *given
}

func names(hints []Hint) []string {
	if len(hints) == 0 {
		return nil
	}
	all := make([]string, len(hints))
	for i, h := range hints {
		all[i] = h.Name
	}
	return all
}

// distinct removes each address and port from all but the first endpoint that has it. endpoints are sorted by
// address. An endpoint that has no port left is removed.
func distinct(endpoints []sources.Endpoint) []sources.Endpoint {
	out := endpoints[:0]
	for _, e := range endpoints {
		for i := len(out) - 1; i >= 0 && out[i].Addr == e.Addr; i-- {
			e.Ports = without(e.Ports, out[i].Ports)
		}
		if len(e.Ports) > 0 {
			out = append(out, e)
		}
	}
	return out
}

// without returns the ports that are not taken. It does not change the shared list.
func without(ports, taken []sources.EndpointPort) []sources.EndpointPort {
	free := func(p sources.EndpointPort) bool { return !slices.Contains(taken, p) }
	if !slices.ContainsFunc(ports, func(p sources.EndpointPort) bool { return !free(p) }) {
		return ports
	}
	left := make([]sources.EndpointPort, 0, len(ports))
	for _, p := range ports {
		if free(p) {
			left = append(left, p)
		}
	}
	return left
}

package announce

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// departures are the announced VIPs that the table no longer has. Routers send packets to
// them until they have learned of the withdrawal, so their services are served for
// Config.WithdrawWait after the route is gone. The zero value is ready.
type departures struct {
	last      sources.Table // with the VIPs in withdrawn
	withdrawn map[netip.Addr]withdrawal
}

// withdrawal is when the kernel last had the route of a VIP.
type withdrawal struct {
	at    time.Time
	there bool // it had it at the last call of Keep, and no sync has removed it since
}

// Keep returns a table with the VIPs that it has lost and that routers still know. routes
// are the announcements of the kernel. A VIP of which it is not decided that it goes stays.
//
// After a start no VIP departs: what was served before is not known.
func Keep(
	c *Config, last Memory, m sources.Merged, routes []kernel.Announcement, now time.Time,
) (sources.Merged, Memory) {
	m, last.departures = last.departures.keep(c, m, routes, now)
	return m, last
}

func (d departures) keep(
	c *Config, m sources.Merged, routes []kernel.Announcement, now time.Time,
) (sources.Merged, departures) {
	next := departures{last: m.Table}
	if c.Mode != Routes || c.WithdrawWait == 0 {
		return d.changed(m, next)
	}
	next.withdrawn = d.departing(c, m, routes, now)
	if len(next.withdrawn) == 0 {
		next.withdrawn = nil
		return d.changed(m, next)
	}
	k := keeper{going: next.withdrawn, found: map[netip.Addr]bool{}, next: m.Services.Slice()}
	for i := range d.last.Services.Len() {
		k.keep(d.last.Services.At(i), m.Table)
	}
	maps.DeleteFunc(next.withdrawn, func(a netip.Addr, _ withdrawal) bool { return !k.found[a] })
	next.last = sources.Table{Services: sources.ServicesOf(k.next...), Lists: m.Lists, Seen: m.Seen}
	next.last.Sort()
	return d.changed(m, next)
}

// changed returns a merged table with the VIPs of next, and with what differs from the last one.
func (d departures) changed(m sources.Merged, next departures) (sources.Merged, departures) {
	if d.withdrawn != nil || next.withdrawn != nil {
		m.Table, m.Delta = next.last, sources.Compare(d.last, next.last)
	}
	return m, next
}

// departing returns the VIPs that depart.
func (d departures) departing(
	c *Config, m sources.Merged, routes []kernel.Announcement, now time.Time,
) map[netip.Addr]withdrawal {
	withdrawn := map[netip.Addr]withdrawal{}
	maps.Copy(withdrawn, d.withdrawn)
	d.addLost(withdrawn, m.Delta, routes, now) // also if it is not decided: a Delta names a lost VIP once
	for a, was := range withdrawn {
		switch {
		case announcement(routes, a) != nil:
			withdrawn[a] = withdrawal{now, true}
		case m.Decided(a) && !now.Before(was.at.Add(c.WithdrawWait)):
			delete(withdrawn, a)
		default:
			withdrawn[a] = withdrawal{at: was.at}
		}
	}
	if len(withdrawn) == 0 {
		return nil
	}
	for i := range m.Services.Len() {
		s := m.Services.At(i)
		for _, a := range s.VIPs {
			delete(withdrawn, a)
		}
		for j := range s.Endpoints { // a VIP that is local hides an endpoint
			delete(withdrawn, s.Endpoints[j].Addr)
		}
	}
	return withdrawn
}

// addLost adds the announced VIPs of the services that a Delta changes.
func (d departures) addLost(
	withdrawn map[netip.Addr]withdrawal, delta sources.Delta, routes []kernel.Announcement, now time.Time,
) {
	for _, x := range delta.Changes {
		s, found := d.last.Lookup(x.Namespace, x.Name)
		if !x.Service || !found {
			continue
		}
		for _, a := range s.VIPs {
			if announcement(routes, a) != nil {
				withdrawn[a] = withdrawal{now, true}
			}
		}
	}
}

// keeper adds VIPs that depart to a table.
type keeper struct {
	going map[netip.Addr]withdrawal
	found map[netip.Addr]bool
	next  []sources.Service // first those of the table, by its indexes
}

// keep adds the VIPs that depart of a service of the last table.
func (k *keeper) keep(was *sources.Service, table sources.Table) {
	departs := false
	for _, a := range was.VIPs {
		_, going := k.going[a]
		departs = departs || going
	}
	if !departs {
		return
	}
	i, stays := table.Index(was.Namespace, was.Name)
	if stays {
		k.addTo(&k.next[i], was)
		return
	}
	s := *was
	s.ClusterIPs, s.ExternalIPs, s.LoadBalancerIPs = k.of(was.ClusterIPs), k.of(was.ExternalIPs), k.ofLoadBalancer(was)
	s.Ports, s.HealthCheckNodePort = withoutNodePorts(was.Ports), 0 // another service may have them now
	k.next = append(k.next, s)
}

// addTo adds the VIPs that depart to a service that stays. Only load balancer IPs have
// source ranges, so each VIP stays of its kind, and the service of that type for them.
func (k *keeper) addTo(s, was *sources.Service) {
	if !s.Type.Serves() {
		return
	}
	s.ClusterIPs, s.ExternalIPs = slices.Concat(s.ClusterIPs, k.of(was.ClusterIPs)),
		slices.Concat(s.ExternalIPs, k.of(was.ExternalIPs))
	balanced := k.ofLoadBalancer(was)
	if len(balanced) > 0 && s.Type != sources.LoadBalancer {
		if s.Type == sources.ClusterIP {
			s.Ports = withoutNodePorts(s.Ports)
		}
		s.Type, s.SourceRanges, s.LoadBalancerIPs, s.HealthCheckNodePort = sources.LoadBalancer, was.SourceRanges, nil, 0
	}
	s.LoadBalancerIPs = slices.Concat(s.LoadBalancerIPs, balanced)
}

func withoutNodePorts(ports []sources.Port) []sources.Port {
	ports = slices.Clone(ports)
	for i := range ports {
		ports[i].NodePort = 0
	}
	return ports
}

// of returns those addresses that depart.
func (k *keeper) of(all []netip.Addr) (some []netip.Addr) {
	for _, a := range all {
		if _, going := k.going[a]; going {
			k.found[a] = true
			some = append(some, a)
		}
	}
	return some
}

// ofLoadBalancer returns those load balancer IPs of a service that depart.
func (k *keeper) ofLoadBalancer(s *sources.Service) (some []sources.VIP) {
	for _, v := range s.LoadBalancerIPs {
		if _, going := k.going[v.Addr]; going && s.Type == sources.LoadBalancer {
			k.found[v.Addr] = true
			some = append(some, v)
		}
	}
	return some
}

// Waits says, a line each, for which VIPs a plan happens in two parts: first its withdrawal, and
// what serves it after WithdrawWait.
func (c *Config) Waits(want *kernel.State, have *kernel.Observed) (lines []string) {
	if c.Mode != Routes || c.WithdrawWait == 0 {
		return nil
	}
	local := map[netip.Addr]bool{}
	for _, r := range want.Routes {
		local[r.Addr] = true
	}
	for _, a := range want.Addrs { // some announced VIPs are bound: see mode.AddVIPs
		local[a.Addr] = true
	}
	for i, a := range have.Announcements {
		if local[a.Addr] || i > 0 && have.Announcements[i-1].Addr == a.Addr {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s: svcproxy removes its route first, and what serves it %s later "+
			"(announce.withdrawWait)", a.Addr, c.WithdrawWait))
	}
	return lines
}

package sources

import (
	"net/netip"
	"slices"
)

// Delta is what differs between two tables. Merger computes it once per merge; everything that depends on
// what has changed reads it.
type Delta struct {
	Changes []Change // in order of name
	// Moved: a service is of another source or file. Shifted: one is on another line. Services that only did that
	// are not among Changes.
	Moved, Shifted bool
	Lists          bool // a list came, went or changed
}

// Change is a service that differs between two tables.
type Change struct {
	Namespace, Name string
	Source          string // of the later service; of the earlier one if it is gone
	Was, Is         int    // indexes in the earlier and the later table; -1 if the service is not in it

	// What differs. If only one of the tables has the service, both are set, but without endpoints only
	// Service.
	Service, Endpoints bool
}

// FullName is "namespace/name".
func (c Change) FullName() string { return c.Namespace + "/" + c.Name }

// Compare returns what differs between two sorted tables. Tables that share their services do not.
func Compare(before, now Table) Delta {
	d := Delta{Lists: !slices.Equal(before.Lists, now.Lists)}
	a, b := before.Services, now.Services
	if a.Same(b) {
		return d
	}
	if known, ok := now.knownSince(before); ok {
		known.Lists = d.Lists
		return known
	}
	d.Changes = slices.Grow(d.Changes, max(b.Len()-a.Len(), 0))
	for i, j := 0, 0; i < a.Len() || j < b.Len(); {
		switch c := orderAt(a, i, b, j); {
		case c < 0:
			d.Changes = append(d.Changes, whole(a.At(i), i, -1))
			i++
		case c > 0:
			d.Changes = append(d.Changes, whole(b.At(j), -1, j))
			j++
		default:
			was, is := a.At(i), b.At(j)
			service, endpoints := !sameService(was, is), !sameEndpoints(was.Endpoints, is.Endpoints)
			if service || endpoints {
				d.Changes = append(d.Changes, Change{is.Namespace, is.Name, is.Origin.Source, i, j, service, endpoints})
			}
			d.Moved = d.Moved || was.Origin.Source != is.Origin.Source || was.Origin.File != is.Origin.File
			d.Shifted = d.Shifted || was.Origin.Line != is.Origin.Line
			i++
			j++
		}
	}
	return d
}

// whole is the change of a service that only one of two tables has.
func whole(s *Service, was, is int) Change {
	return Change{s.Namespace, s.Name, s.Origin.Source, was, is, true, len(s.Endpoints) > 0}
}

// orderAt compares the services at two indexes by name; the end of a list comes last.
func orderAt(a Services, i int, b Services, j int) int {
	switch {
	case i == a.Len():
		return 1
	case j == b.Len():
		return -1
	}
	was, is := a.At(i), b.At(j)
	if was.Name == is.Name && was.Namespace == is.Namespace { // mostly, and faster than to compare
		return 0
	}
	return CompareNames(was, is)
}

// Empty reports whether the tables are equal, but for Seen.
func (d Delta) Empty() bool { return len(d.Changes) == 0 && !d.Moved && !d.Shifted && !d.Lists }

// OnlyEndpoints reports whether both tables have the same services and these differ in endpoints alone. The
// indexes of each Change are equal then.
func (d Delta) OnlyEndpoints() bool {
	return !slices.ContainsFunc(d.Changes, func(c Change) bool { return c.Service })
}

// few reports whether a few services changed, of n.
func (d Delta) few(n int) bool { return len(d.Changes) <= max(fewChanges, n/8) }

// Touched returns the indexes of the services to take from the later table, of n services, if both have the same ones:
// those that changed, or all if any of them is on another line or in another file.
func (d Delta) Touched(n int) []int {
	if d.Moved || d.Shifted {
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		return all
	}
	list := make([]int, len(d.Changes))
	for i, c := range d.Changes {
		list[i] = c.Is
	}
	return list
}

// Counts returns how many services only the later table has, both have, and only the earlier one has.
func (d Delta) Counts() (added, changed, removed int) {
	for _, c := range d.Changes {
		switch {
		case c.Was < 0:
			added++
		case c.Is < 0:
			removed++
		default:
			changed++
		}
	}
	return added, changed, removed
}

// keepsClaims reports whether a change of tables, given per table, cannot change which service has an
// address. That is so if only endpoints differ, and no address that came or went is a VIP of any table, which
// isVIP says of some addresses. In a free table services may come, go and change: nothing in it was
// contested, and it is the only one that has services.
func keepsClaims(deltas []Delta, before, now []Table, free func(table int) bool,
	isVIP func(map[netip.Addr]bool) bool) bool {
	came := newcomers{endpoints: map[netip.Addr]bool{}}
	only := -1 // the table in which more than endpoints differ
	for i, d := range deltas {
		if !d.OnlyEndpoints() {
			if !d.few(now[i].Services.Len()) || !free(i) {
				return false
			}
			only = i
		}
		for _, c := range d.Changes {
			switch {
			case c.Is < 0:
			case !c.Service:
				addMoved(came.endpoints, before[i].Services.At(c.Was).Endpoints, now[i].Services.At(c.Is).Endpoints)
			case !came.add(now[i].Services, c.Is):
				return false
			}
		}
	}
	if len(came.at) > 0 {
		return !came.contested(now[only])
	}
	return len(came.endpoints) == 0 || !isVIP(came.endpoints)
}

// hasVIP reports whether one of the addresses is a service's.
func (t Table) hasVIP(addrs map[netip.Addr]bool) bool {
	for i := range t.Services.Len() {
		for _, a := range t.Services.At(i).VIPs {
			if addrs[a] {
				return true
			}
		}
	}
	return false
}

// addMoved adds the addresses that only one of two sorted lists of endpoints has.
func addMoved(moved map[netip.Addr]bool, a, b []Endpoint) {
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(a) > 0 && len(b) > 0 && a[0].Addr == b[0].Addr:
			a, b = a[1:], b[1:]
		case len(b) == 0 || len(a) > 0 && a[0].Addr.Less(b[0].Addr):
			moved[a[0].Addr], a = true, a[1:]
		default:
			moved[b[0].Addr], b = true, b[1:]
		}
	}
}

// sameService reports whether two services of one name are equal but for their endpoints and Origin.
func sameService(a, b *Service) bool {
	return a.Type == b.Type && a.FWMark == b.FWMark && a.KeepsClients == b.KeepsClients &&
		a.TakeHostPorts == b.TakeHostPorts &&
		a.ExternalTrafficPolicy == b.ExternalTrafficPolicy && a.InternalTrafficPolicy == b.InternalTrafficPolicy &&
		a.Affinity == b.Affinity && a.AffinityTimeout == b.AffinityTimeout &&
		a.HealthCheckNodePort == b.HealthCheckNodePort && a.PublishNotReadyAddresses == b.PublishNotReadyAddresses &&
		a.AffinityPrefix4 == b.AffinityPrefix4 && a.AffinityPrefix6 == b.AffinityPrefix6 &&
		a.SchedulerFlags == b.SchedulerFlags && a.Weighted == b.Weighted && a.OnePacket == b.OnePacket &&
		a.TrafficDistribution == b.TrafficDistribution && a.Scheduler == b.Scheduler && a.Forward == b.Forward &&
		(a.DrainTimeout == nil) == (b.DrainTimeout == nil) && (a.DrainTimeout == nil || *a.DrainTimeout == *b.DrainTimeout) &&
		(a.Announce == nil) == (b.Announce == nil) && (a.Announce == nil || *a.Announce == *b.Announce) &&
		(a.AnnounceMinHealthy == nil) == (b.AnnounceMinHealthy == nil) &&
		(a.AnnounceMinHealthy == nil || *a.AnnounceMinHealthy == *b.AnnounceMinHealthy) &&
		sameHealthCheck(a.HealthCheck, b.HealthCheck) && sameClients(a.Clients, b.Clients) &&
		equal(a.ClusterIPs, b.ClusterIPs) && equal(a.ExternalIPs, b.ExternalIPs) &&
		equal(a.LoadBalancerIPs, b.LoadBalancerIPs) &&
		equal(a.SourceRanges, b.SourceRanges) && equal(a.Ports, b.Ports) && equal(a.Withheld, b.Withheld) &&
		slices.Equal(a.Legacy, b.Legacy) && sameNames(a.Names, b.Names)
}

func sameHealthCheck(a, b *HealthCheck) bool { return a == b || a != nil && b != nil && *a == *b }

func sameClients(a, b *Clients) bool {
	return a == b || a != nil && b != nil && equal(a.Allow, b.Allow) && equal(a.Deny, b.Deny) &&
		equal(a.AllowLists, b.AllowLists) && equal(a.DenyLists, b.DenyLists) && a.Rate == b.Rate && a.Burst == b.Burst &&
		a.Connections == b.Connections && a.PerClient == b.PerClient && a.Reject == b.Reject && a.Closed == b.Closed
}

func sameEndpoints(a, b []Endpoint) bool {
	return identical(a, b) || slices.EqualFunc(a, b, sameEndpoint)
}

func sameEndpoint(a, b Endpoint) bool {
	return a.Addr == b.Addr && a.NodeName == b.NodeName && a.Zone == b.Zone && a.Weight == b.Weight &&
		a.Ready == b.Ready && a.Serving == b.Serving && a.Terminating == b.Terminating &&
		a.MaxConnections == b.MaxConnections && a.ResumeConnections == b.ResumeConnections &&
		a.Backup == b.Backup && a.Unchecked == b.Unchecked && a.Cut == b.Cut && a.Spared == b.Spared &&
		equal(a.Ports, b.Ports) && sameName(a.Name, b.Name) && sameHints(a.Hints, b.Hints)
}

func sameHints(a, b *Hints) bool {
	return a == b || a != nil && b != nil && equal(a.Nodes, b.Nodes) && equal(a.Zones, b.Zones)
}

func equal[T comparable](a, b []T) bool { return identical(a, b) || slices.Equal(a, b) }

// identical reports whether two slices are the same memory. A source reuses the slices of services that it has
// not read again, so most comparisons end here.
func identical[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

package sources

import (
	"slices"
)

// Change is a service that two tables have differently. One that only one of them has, has changed in both
// ways, unless it has no endpoints.
type Change struct {
	Name      string // "namespace/name"
	Service   bool   // in itself
	Endpoints bool
}

// Changes are the differences between two sorted tables, in order of name. Where a service was defined is
// no difference.
func Changes(before, now Table) []Change {
	var changes []Change
	a, b := before.Services, now.Services
	for len(a) > 0 || len(b) > 0 {
		switch c := order(a, b); {
		case c < 0:
			changes, a = append(changes, Change{a[0].FullName(), true, len(a[0].Endpoints) > 0}), a[1:]
		case c > 0:
			changes, b = append(changes, Change{b[0].FullName(), true, len(b[0].Endpoints) > 0}), b[1:]
		default:
			service, endpoints := !sameService(&a[0], &b[0]), !sameEndpoints(a[0].Endpoints, b[0].Endpoints)
			if service || endpoints {
				changes = append(changes, Change{b[0].FullName(), service, endpoints})
			}
			a, b = a[1:], b[1:]
		}
	}
	return changes
}

// OnlyEndpoints gives the services, by their index in now, that two sorted tables have with other endpoints;
// ok is false if they differ in anything else that Changes tells.
func OnlyEndpoints(before, now Table) (changed []int, ok bool) {
	if len(before.Services) != len(now.Services) {
		return nil, false
	}
	for i := range now.Services {
		a, b := &before.Services[i], &now.Services[i]
		if a.Namespace != b.Namespace || a.Name != b.Name || !sameService(a, b) {
			return nil, false
		}
		if !sameEndpoints(a.Endpoints, b.Endpoints) {
			changed = append(changed, i)
		}
	}
	return changed, true
}

// order compares the first services of two lists; none comes last.
func order(a, b []Service) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	}
	return compareNames(a[0], b[0])
}

// sameService says whether two services of one name are the same but for their endpoints. A source that has
// not read a service again gives the same slices: those are not walked.
func sameService(a, b *Service) bool {
	return a.Type == b.Type &&
		a.ExternalTrafficPolicy == b.ExternalTrafficPolicy && a.InternalTrafficPolicy == b.InternalTrafficPolicy &&
		a.Affinity == b.Affinity && a.AffinityTimeout == b.AffinityTimeout &&
		a.HealthCheckNodePort == b.HealthCheckNodePort && a.PublishNotReadyAddresses == b.PublishNotReadyAddresses &&
		a.TrafficDistribution == b.TrafficDistribution && a.Scheduler == b.Scheduler &&
		(a.DrainTimeout == nil) == (b.DrainTimeout == nil) && (a.DrainTimeout == nil || *a.DrainTimeout == *b.DrainTimeout) &&
		equal(a.ClusterIPs, b.ClusterIPs) && equal(a.ExternalIPs, b.ExternalIPs) && equal(a.LoadBalancerIPs, b.LoadBalancerIPs) &&
		equal(a.SourceRanges, b.SourceRanges) && equal(a.Ports, b.Ports) && equal(a.Withheld, b.Withheld)
}

func sameEndpoints(a, b []Endpoint) bool {
	return identical(a, b) || slices.EqualFunc(a, b, sameEndpoint)
}

func sameEndpoint(a, b Endpoint) bool {
	return a.Addr == b.Addr && a.NodeName == b.NodeName && a.Zone == b.Zone && a.Weight == b.Weight &&
		a.Ready == b.Ready && a.Serving == b.Serving && a.Terminating == b.Terminating &&
		equal(a.Ports, b.Ports) && equal(a.NodeHints, b.NodeHints) && equal(a.ZoneHints, b.ZoneHints)
}

func equal[T comparable](a, b []T) bool { return identical(a, b) || slices.Equal(a, b) }

// identical says whether two slices are the same memory.
func identical[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

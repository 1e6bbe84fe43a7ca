package events

import (
	"cmp"
	"slices"

	"github.com/svcproxy/svcproxy/sources"
)

// changed are the full names of the services that differ between two tables, in
// order: a walk side by side. Where a service was defined is no difference.
func changed(a, b []sources.Service) []string {
	var names []string
	for len(a) > 0 || len(b) > 0 {
		switch c := order(a, b); {
		case c < 0:
			names, a = append(names, a[0].FullName()), a[1:]
		case c > 0:
			names, b = append(names, b[0].FullName()), b[1:]
		default:
			if !same(&a[0], &b[0]) {
				names = append(names, b[0].FullName())
			}
			a, b = a[1:], b[1:]
		}
	}
	return names
}

// order compares the first services of two lists; none comes last.
func order(a, b []sources.Service) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	}
	return cmp.Or(cmp.Compare(a[0].Namespace, b[0].Namespace), cmp.Compare(a[0].Name, b[0].Name))
}

// same says whether two services of one name are to be served alike. A source
// that has not read a service again gives the same slices: those are not walked.
func same(a, b *sources.Service) bool {
	return a.Type == b.Type &&
		a.ExternalTrafficPolicy == b.ExternalTrafficPolicy && a.InternalTrafficPolicy == b.InternalTrafficPolicy &&
		a.Affinity == b.Affinity && a.AffinityTimeout == b.AffinityTimeout &&
		a.HealthCheckNodePort == b.HealthCheckNodePort && a.PublishNotReadyAddresses == b.PublishNotReadyAddresses &&
		a.TrafficDistribution == b.TrafficDistribution && a.Scheduler == b.Scheduler &&
		(a.DrainTimeout == nil) == (b.DrainTimeout == nil) && (a.DrainTimeout == nil || *a.DrainTimeout == *b.DrainTimeout) &&
		equal(a.ClusterIPs, b.ClusterIPs) && equal(a.ExternalIPs, b.ExternalIPs) && equal(a.LoadBalancerIPs, b.LoadBalancerIPs) &&
		equal(a.SourceRanges, b.SourceRanges) && equal(a.Ports, b.Ports) &&
		(identical(a.Endpoints, b.Endpoints) || slices.EqualFunc(a.Endpoints, b.Endpoints, sameEndpoint))
}

func sameEndpoint(a, b sources.Endpoint) bool {
	return a.Addr == b.Addr && a.NodeName == b.NodeName && a.Zone == b.Zone && a.Weight == b.Weight &&
		a.Ready == b.Ready && a.Serving == b.Serving && a.Terminating == b.Terminating &&
		equal(a.Ports, b.Ports) && equal(a.NodeHints, b.NodeHints) && equal(a.ZoneHints, b.ZoneHints)
}

func equal[T comparable](a, b []T) bool { return identical(a, b) || slices.Equal(a, b) }

// identical says whether two slices are the same memory.
func identical[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

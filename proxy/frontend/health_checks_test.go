package frontend

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/svcproxy/svcproxy/sources"
)

// Endpoints that serve because too few are up draw no load balancers to their node. They stay backends.
func TestSparedEndpointsDoNotInvite(t *testing.T) {
	both := loadBalancer(endpoint("10.2.1.10", "n1"), endpoint("10.2.1.11", "n1"), endpoint("10.2.2.10", "n2"))
	one, none := both, both
	one.Endpoints, none.Endpoints = slices.Clone(both.Endpoints), slices.Clone(both.Endpoints)
	one.Endpoints[0].Spared, none.Endpoints[0].Spared, none.Endpoints[1].Spared = true, true, true

	var cache Cache
	var last sources.Table
	for i, step := range []struct {
		service sources.Service
		want    int
	}{{both, 2}, {one, 1}, {none, 0}, {both, 2}} {
		services := []sources.Service{step.service}
		for k := range fewServices { // a change of one service of a smaller table is not patched
			services = append(services, sources.Service{Namespace: "default", Name: fmt.Sprint("x", k), Type: sources.ClusterIP})
		}
		before := last
		last = tableOf(services...)
		f := cache.List(sources.Merged{Table: last, Delta: sources.Compare(before, last)}, here, Config{})
		if f.change.patched != (i > 0) {
			t.Errorf("step %d: patched %t", i, f.change.patched)
		}
		if got := f.HealthChecks(); len(got) != 1 || got[0].LocalEndpoints != step.want {
			t.Errorf("step %d: health checks %v, want %d local endpoints", i, got, step.want)
		}
		at := slices.IndexFunc(f.Fronts, func(x Front) bool { return x.Traits.Has(LoadBalancer) })
		if got := f.Backends(&f.Fronts[at]); len(got) != 2 {
			t.Errorf("step %d: backends %v, want both of this node", i, got)
		}
	}
}

// A pod has an address of each family, and counts once: load balancers take the number for the node's weight.
func TestBothFamiliesCountOnce(t *testing.T) {
	for _, c := range []struct {
		endpoints []sources.Endpoint
		want      int
	}{
		{[]sources.Endpoint{endpoint("10.2.1.10", "n1"), endpoint("fd00:2::10", "n1")}, 1},
		{[]sources.Endpoint{endpoint("10.2.1.10", "n1"), endpoint("fd00:2::10", "n1"), endpoint("fd00:2::11", "n1")}, 2},
		{[]sources.Endpoint{endpoint("10.2.1.10", "n1"), endpoint("10.2.1.11", "n1"), endpoint("fd00:2::10", "n2")}, 2},
		{[]sources.Endpoint{endpoint("fd00:2::10", "n1")}, 1},
		{[]sources.Endpoint{endpoint("10.2.2.10", "n2"), endpoint("fd00:2::10", "n2")}, 0},
	} {
		s := loadBalancer(c.endpoints...)
		s.ClusterIPs = append(s.ClusterIPs, netip.MustParseAddr("fd00:1::1"))
		var cache Cache
		f := cache.List(sources.Merged{Table: tableOf(s)}, here, Config{IPv6: true})
		if got := f.HealthChecks(); len(got) != 1 || got[0].LocalEndpoints != c.want {
			t.Errorf("%v: health checks %v, want %d local endpoints", c.endpoints, got, c.want)
		}
	}
}

package frontend

import (
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// Endpoints that get no connections, are down or are for other nodes are counted under each traffic policy.
func TestCounts(t *testing.T) {
	s := loadBalancer()
	for i, c := range []func(*sources.Endpoint){
		func(*sources.Endpoint) {},
		func(e *sources.Endpoint) { e.Weight = 0 },
		func(e *sources.Endpoint) { e.Spared = true },
		func(e *sources.Endpoint) { e.Cut, e.Weight = true, 0 },
		func(e *sources.Endpoint) { e.Ready, e.Serving = false, false },
		func(e *sources.Endpoint) { e.Backup, e.Weight = true, 0 },
		func(e *sources.Endpoint) { e.NodeName = "n2" },
		func(e *sources.Endpoint) { e.NodeName, e.Ready, e.Serving = "n2", false, false },
		func(e *sources.Endpoint) { e.Ports[0].Name = "another" },
	} {
		e := endpoint("10.2.1.10", "n1")
		e.Addr = addr("10.2.1.1" + string(rune('0'+i)))
		c(&e)
		s.Endpoints = append(s.Endpoints, e)
	}
	elsewhere := s
	elsewhere.Endpoints = s.Endpoints[6:8]
	for _, c := range []struct {
		name     string
		service  sources.Service
		kind     Traits
		fallback LocalFallback
		want     Counts
	}{
		{"cluster", s, ClusterIP, FallbackDrop, Counts{Serving: 3, Up: 2, Of: 7}},
		{"local", s, LoadBalancer, FallbackDrop, Counts{Serving: 2, Up: 1, Of: 5}},
		{"none here", elsewhere, LoadBalancer, FallbackDrop, Counts{}},
		{"fallback", elsewhere, LoadBalancer, FallbackCluster, Counts{Serving: 1, Up: 1, Of: 1}},
	} {
		f := List(tableOf(c.service), kernel.Node{Name: "n1"}, Config{LocalFallback: c.fallback})
		for i := range f.Fronts {
			if x := &f.Fronts[i]; x.Traits.Has(c.kind) && f.Counts(x) != c.want {
				t.Errorf("%s, %s: %+v, want %+v", c.name, x.Key, f.Counts(x), c.want)
			}
		}
	}
}

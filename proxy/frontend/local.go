package frontend

import (
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// WithoutLocal counts the services with endpoints of a family whose traffic under
// policy Local has no backend for new connections. It counts traffic to cluster
// IPs (internal) and to all other addresses (external) apart. A service that
// LocalFallback sends to endpoints on other nodes has backends.
func (f *Frontends) WithoutLocal(family kernel.Family) (internal, external int) {
	var in, ex []int32
	for i := range f.Fronts {
		x := &f.Fronts[i]
		local := x.Key.Family() == family && x.Traits&(InternalLocal|ExternalLocal) != 0
		if !local || f.Counts(x).Serving > 0 || !hasEndpoint(f.Service(x), family) {
			continue
		}
		if x.Traits.Has(InternalLocal) {
			in = append(in, x.Service)
		}
		if x.Traits.Has(ExternalLocal) {
			ex = append(ex, x.Service)
		}
	}
	return different(in), different(ex)
}

// hasEndpoint reports whether an endpoint of a family serves a port of a service.
func hasEndpoint(s *sources.Service, family kernel.Family) bool {
	for i := range s.Endpoints {
		if kernel.FamilyOf(s.Endpoints[i].Addr) != family {
			continue
		}
		for p := range s.Ports {
			if _, serves := s.PortOf(&s.Endpoints[i], p); serves {
				return true
			}
		}
	}
	return false
}

func different(services []int32) int {
	slices.Sort(services)
	return len(slices.Compact(services))
}

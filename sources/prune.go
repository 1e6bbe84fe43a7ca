package sources

import (
	"net/netip"
	"slices"
)

// Prune removes parts of a service that it can do without, and for which Validate would refuse the whole service.
// These are VIPs and endpoints that no client could reach, each a problem, and addresses that are given twice. ok
// is false if the rest cannot be served either. Prune is for an API server, which has accepted the service as it
// is.
func Prune(s Service) (pruned Service, problems []Problem, ok bool) {
	v := &validation{}
	if s.Type.Serves() {
		v.pruneVIPs(&s)
		v.pruneEndpoints(&s)
	}
	left := v.errors
	v.errors = nil
	v.check(&s)
	return s, append(left, v.errors...), len(v.errors) == 0
}

func (v *validation) pruneVIPs(s *Service) {
	given := map[netip.Addr]bool{}
	fit := func(a netip.Addr) bool {
		why := unfit(a)
		if why != "" {
			v.refuse(s, "VIP %s %s: it is left out, as no client could reach it", a, why)
		}
		fit := why == "" && !given[a]
		given[a] = true
		return fit
	}
	s.ClusterIPs = filter(s.ClusterIPs, fit)
	// These come before external IPs, so that an address that is both is guarded by the source ranges.
	s.LoadBalancerIPs = filter(s.LoadBalancerIPs, func(vip VIP) bool { return vip.Mode == IPModeProxy || fit(vip.Addr) })
	s.ExternalIPs = filter(s.ExternalIPs, fit)
	if s.Type == ClusterIP && len(s.ExternalIPs) == 0 {
		// Nothing external is left that Local could be about. The cluster IPs are served, as by kube-proxy.
		s.ExternalTrafficPolicy = Cluster
	}
}

func (v *validation) pruneEndpoints(s *Service) {
	s.Endpoints = filter(s.Endpoints, func(e Endpoint) bool {
		if why := unfit(e.Addr); why != "" {
			v.refuse(s, "endpoint %s %s: it is left out, as IPVS could not reach it", e.Addr, why)
			return false
		}
		if s.HasVIP(e.Addr) && loops(s, e) {
			v.refuse(s, "endpoint %s is the service's own VIP and port: it is left out, as it would be sent to itself", e.Addr)
			return false
		}
		return s.LeadsTo(e.Addr) // false if the VIP of its family was removed
	})
}

// filter returns the wanted elements, in a new list if not all are wanted.
func filter[T any](list []T, wanted func(T) bool) []T {
	for i, v := range list {
		if wanted(v) {
			continue
		}
		kept := slices.Clone(list[:i])
		for _, v := range list[i+1:] {
			if wanted(v) {
				kept = append(kept, v)
			}
		}
		return kept
	}
	return list
}

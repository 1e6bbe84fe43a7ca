package frontend

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// HealthCheck is the health check node port of a load balancer service that
// keeps external traffic local. A load balancer asks it which nodes have
// endpoints.
type HealthCheck struct {
	Namespace, Name string
	Service         string // its DisplayName
	Port            uint16
	// LocalEndpoints counts the endpoints on this node that are up and should get
	// new connections, by address. One that serves several ports counts once, as in
	// kube-proxy. Of two families the one with more counts, since a pod has an address
	// of each, and load balancers take the number for the node's weight.
	LocalEndpoints int
}

// HealthChecks returns the health check node ports in the order of the table.
func (f *Frontends) HealthChecks() []HealthCheck {
	var checks []HealthCheck
	for _, i := range f.checks {
		s := f.Table.Services.At(int(i))
		local := int(f.services.at(int(i)).local)
		checks = append(checks, HealthCheck{s.Namespace, s.Name, s.DisplayName(), s.HealthCheckNodePort, local})
	}
	return checks
}

// HealthCheckPorts calls yield with the health check node ports of a family.
func (f *Frontends) HealthCheckPorts(family kernel.Family) func(yield func(port uint16) bool) {
	return func(yield func(uint16) bool) {
		for _, i := range f.checks {
			if s := f.Table.Services.At(int(i)); has(s, family) && !yield(s.HealthCheckNodePort) {
				return
			}
		}
	}
}

// healthChecked reports whether a service has a health check node port.
func healthChecked(s *sources.Service) bool {
	return s.HealthChecked() && !s.Withholds(sources.Address{Kind: sources.KindHealthCheck, Port: s.HealthCheckNodePort,
		Protocol: sources.TCP})
}

// appendInviting appends the addresses of the current port's candidates that
// count in HealthCheck.LocalEndpoints.
func (l *lister) appendInviting(addrs []netip.Addr, s *sources.Service) []netip.Addr {
	for i := range l.found {
		if x := &l.found[i]; x.inviting(s) {
			addrs = append(addrs, x.addr.Addr())
		}
	}
	return addrs
}

func distinct(addrs []netip.Addr) int32 {
	slices.SortFunc(addrs, netip.Addr.Compare)
	return int32(len(slices.Compact(addrs)))
}

package rules

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// HealthCheck is what a load balancer that asks this node at a service's health check node port is told.
type HealthCheck struct {
	Namespace, Name string
	Port            uint16
	// LocalEndpoints are those on this node that new connections are meant for, counted by address: one
	// that serves several ports counts once, as in kube-proxy, one of both families twice.
	LocalEndpoints int
}

// HealthChecks are the health check node ports of table t on node n, in the table's order, by namespace
// and name: one for each load balancer service that keeps external traffic local and has one.
func HealthChecks(t sources.Table, n kernel.Node, c Config) []HealthCheck {
	n, c = c.on(n)
	var checks []HealthCheck
	l := &listing{table: t, node: n, config: c}
	for i := range t.Services {
		if s := &t.Services[i]; healthChecked(s) {
			checks = append(checks, HealthCheck{s.Namespace, s.Name, s.HealthCheckNodePort, l.localEndpoints(s)})
		}
	}
	return checks
}

// healthChecked says whether a service has a health check node port. It tells a load balancer which nodes
// have endpoints, so it is only for services whose traffic must go to a node that has one.
func healthChecked(s *sources.Service) bool {
	return s.HealthChecked() && !s.Withholds(sources.Address{Kind: sources.KindHealthCheck, Port: s.HealthCheckNodePort, Protocol: sources.TCP})
}

// localEndpoints counts a service's endpoints on this node, in the families that it is served in.
func (l *listing) localEndpoints(s *sources.Service) int {
	var found []netip.Addr
	for _, f := range l.config.families() {
		if !l.serviceHas(s, f) {
			continue
		}
		for _, p := range s.Ports {
			l.candidates(s, f, p)
			for i := range l.found {
				if x := &l.found[i]; x.local && x.inviting(s) {
					found = append(found, x.addr.Addr())
				}
			}
		}
	}
	slices.SortFunc(found, netip.Addr.Compare)
	return len(slices.Compact(found))
}

// inviting says whether a load balancer should send new connections for a candidate's sake. Those that
// are on their way out still get what arrives here, so that nothing is lost, but the load balancer is to
// go elsewhere while they do; so with those of weight 0, which get no new connections at all.
// publishNotReadyAddresses overrides the conditions, of which terminating is one: Kubernetes then calls
// a terminating endpoint ready.
func (x *candidate) inviting(s *sources.Service) bool {
	return x.weight > 0 && x.ready && (!x.endpoint.Terminating || s.PublishNotReadyAddresses)
}

package sources

import (
	"fmt"
	"slices"
	"time"
)

// Validate returns the errors of a table: what an API server would have refused and what no node could serve.
// They name every service that must not be served; a source that takes its content as a whole refuses it for any of
// them. They do not depend on the node: see Doubts. They are in order of file and line.
func Validate(t Table) []Problem {
	v := &validation{}
	for i := range t.Services.Len() {
		v.check(t.Services.At(i))
	}
	v.contest(t)
	v.bound(t)
	SortProblems(v.errors)
	return v.errors
}

// Revalidate returns what Validate does for a table that replaces one without errors, and what differs between the two.
// It checks only the services that changed, and looks for contests only if there can be new ones.
func Revalidate(before, t Table) (d Delta, problems []Problem) {
	v := &validation{}
	d = Compare(before, t)
	for _, c := range d.Changes {
		if c.Is >= 0 {
			v.check(t.Services.At(c.Is))
		}
	}
	free := func(int) bool { return true }
	if !keepsClaims([]Delta{d}, []Table{before}, []Table{t}, free, t.hasVIP) {
		v.contest(t)
	}
	v.bound(t)
	SortProblems(v.errors)
	return d, v.errors
}

// contest refuses what services of a table want and others of it have.
func (v *validation) contest(t Table) {
	for _, s := range judge(HostFacts{}, nil, t).services {
		if s.out != "" {
			v.refuse(s.Service, "%s", s.out)
		}
		for _, w := range s.withheld {
			v.refuse(s.Service, "%s", w.Why)
		}
	}
}

// byOrigin returns the indexes of services in the order of their files, so that the error of a conflict names
// the later service.
func byOrigin(services Services) []int {
	list := make([]int, services.Len())
	for i := range list {
		list[i] = i
	}
	slices.SortStableFunc(list, func(i, j int) int {
		return services.At(i).Origin.compare(services.At(j).Origin)
	})
	return list
}

// validation collects the errors of a table.
type validation struct{ errors []Problem }

func (v *validation) refuse(s *Service, format string, args ...any) {
	v.errors = append(v.errors, problem(s, format, args...))
}

func problem(s *Service, format string, args ...any) Problem {
	return Problem{Service: s.FullName(), Origin: s.Origin, Message: fmt.Sprintf(format, args...)}
}

// check applies the rules that depend on one service alone.
func (v *validation) check(s *Service) {
	v.label(s, "namespace", s.Namespace)
	v.label(s, "name", s.Name)
	if !s.Type.Serves() {
		if reachable(s) {
			v.refuse(s, "type %s serves nothing: remove its addresses and node ports, or choose another type", s.Type)
		}
		return
	}
	if !reachable(s) {
		v.refuse(s, "nothing to reach it by: give clusterIPs, externalIPs, loadBalancerIPs or a nodePort")
	}
	if v.mark(s); s.FWMark == 0 {
		v.ports(s)
	}
	v.typed(s)
	v.vips(s)
	v.endpoints(s)
	v.tuning(s)
	v.forward(s)
	v.health(s)
	v.clients(s)
}

// reachable reports whether a service has any VIP or node port, or a firewall mark.
func reachable(s *Service) bool {
	return s.FWMark != 0 || len(s.ClusterIPs) > 0 || len(s.ExternalIPs) > 0 || len(s.LoadBalancerIPs) > 0 || hasNodePort(s)
}

func hasNodePort(s *Service) bool {
	return slices.ContainsFunc(s.Ports, func(p Port) bool { return p.NodePort != 0 })
}

func (v *validation) label(s *Service, what, value string) {
	if !isLabel(value) {
		v.refuse(s, "%s %q is not a DNS label: lower-case letters, digits and '-', a letter or digit first and last, at "+
			"most 63", what, value)
	}
}

// isLabel reports whether s is a DNS label: RFC 1123 as Kubernetes applies it.
func isLabel(s string) bool {
	if len(s) == 0 || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

func (v *validation) ports(s *Service) {
	if len(s.Ports) == 0 {
		v.refuse(s, "no ports: give at least one, ports = [ { port = 80 } ]")
	}
	if n := len(s.Ports); n > MostPorts {
		v.refuse(s, "%s", TooManyPorts(n))
		return
	}
	type number struct {
		port     uint16
		protocol Protocol
	}
	names, numbers, nodePorts := map[string]bool{}, map[number]bool{}, map[number]bool{}
	for _, p := range s.Ports {
		switch p.Protocol {
		case TCP, UDP, SCTP:
		default:
			v.refuse(s, "%s cannot be balanced: must be TCP, UDP or SCTP", p.Protocol)
		}
		if p.Port == 0 || p.TargetPort == 0 {
			v.refuse(s, "port %d to target port %d: must be 1 to 65535", p.Port, p.TargetPort)
		}
		if n := (number{p.Port, p.Protocol}); numbers[n] {
			v.refuse(s, "port %d/%s is given twice", p.Port, p.Protocol)
		} else {
			numbers[n] = true
		}
		if n := (number{p.NodePort, p.Protocol}); p.NodePort != 0 && nodePorts[n] {
			v.refuse(s, "node port %d/%s is given twice", p.NodePort, p.Protocol)
		} else {
			nodePorts[n] = true
		}
		switch {
		case p.Name == "" && len(s.Ports) > 1:
			v.refuse(s, "port %d/%s has no name: each needs one when there are several", p.Port, p.Protocol)
		case p.Name == "":
		case names[p.Name]:
			v.refuse(s, "port name %q is given twice", p.Name)
		default:
			v.label(s, "port name", p.Name)
		}
		names[p.Name] = true
	}
	if nodePorts[number{s.HealthCheckNodePort, TCP}] && s.HealthCheckNodePort != 0 {
		v.refuse(s, "health check node port %d is also a node port of the service", s.HealthCheckNodePort)
	}
}

// typed applies the rules about types and traffic policies.
func (v *validation) typed(s *Service) {
	balanced := s.Type == LoadBalancer
	switch s.Type {
	case ClusterIP, NodePort, LoadBalancer:
	default:
		v.refuse(s, "type %q is not one of ClusterIP, NodePort, LoadBalancer, Headless, ExternalName", s.Type)
	}
	if hasNodePort(s) && s.Type == ClusterIP {
		v.refuse(s, `a nodePort needs type = "NodePort" or "LoadBalancer"`)
	}
	if len(s.LoadBalancerIPs) > 0 && !balanced {
		v.refuse(s, `loadBalancerIPs need type = "LoadBalancer"`)
	}
	if len(s.SourceRanges) > 0 && !balanced {
		v.refuse(s, `loadBalancerSourceRanges need type = "LoadBalancer": only load balancer IPs are guarded`)
	}
	if s.HealthCheckNodePort != 0 && !(balanced && s.ExternalTrafficPolicy == Local) {
		v.refuse(s, `healthCheckNodePort needs type = "LoadBalancer" and externalTrafficPolicy = "Local"`)
	}
	if s.ExternalTrafficPolicy == Local && s.Type == ClusterIP && len(s.ExternalIPs) == 0 {
		v.refuse(s, `externalTrafficPolicy = "Local" needs something external: a node port, a load balancer IP or an `+
			`external IP`)
	}
}

// tuning applies the rules about how connections are distributed.
func (v *validation) tuning(s *Service) {
	switch t := s.AffinityTimeout; {
	case s.Affinity == AffinityNone:
	case t < time.Second || t > 24*time.Hour:
		v.refuse(s, "sessionAffinityTimeout %s must be 1s to 24h", t)
	case t%time.Second != 0:
		v.refuse(s, "sessionAffinityTimeout %s must be whole seconds: IPVS counts nothing shorter", t)
	}
	switch p4, p6 := s.AffinityPrefix4, s.AffinityPrefix6; {
	case p4 > 32:
		v.refuse(s, "sessionAffinityPrefix4 %d must be 1 to 32", p4)
	case p6 > 128:
		v.refuse(s, "sessionAffinityPrefix6 %d must be 1 to 128", p6)
	case p4|p6 != 0 && s.Affinity == AffinityNone:
		v.refuse(s, `sessionAffinityPrefix4 and sessionAffinityPrefix6 have no effect without sessionAffinity = "ClientIP"`)
	}
	v.schedulerFlags(s)
	if s.DrainTimeout != nil && *s.DrainTimeout < 0 {
		v.refuse(s, "drainTimeout %s must not be negative", *s.DrainTimeout)
	}

	if s.Scheduler != "" {
		if err := CheckScheduler(s.Scheduler); err != nil {
			v.refuse(s, "%v", err)
		}
	}
}

package manifest

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// Convert returns a service with the endpoints of its slices. node is this node's name: of two endpoints with the
// same address and port, the local one counts. A service that is headless or an external name serves nothing here
// and keeps only its ports.
//
// ok is false if the service cannot be served; problems say why. If ok is true, problems are about single external IPs
// and endpoints that were left out.
func Convert(s Service, parts []*EndpointSlice, node string) (out sources.Service, problems []sources.Problem,
	ok bool) {
	c := &converter{service: sources.Service{
		Namespace: cmp.Or(s.Metadata.Namespace, sources.DefaultNamespace),
		Name:      s.Metadata.Name,
		Origin:    s.Metadata.Origin,
	}}
	c.spec(s.Spec)
	if c.service.Type.Serves() {
		c.addresses(s)
		c.tuning(s.Spec)
	}
	if len(c.problems) > 0 {
		return c.service, c.problems, false
	}
	for _, a := range c.others {
		c.refuse("externalIP %s left out: %s", a, OtherFamily)
	}
	if c.service.Type.Serves() {
		c.endpoints(parts, node)
	}
	return c.service, c.problems, true
}

// Ours reports whether the proxy of this name must serve a service; "" = the proxy of those without a name.
func (s Service) Ours(proxy string) bool {
	return s.Metadata.Labels.Of(proxy) && s.Metadata.Labels.Headless == nil
}

// Ours reports whether the proxy of this name must use a slice, and the slice names its service. A slice that a person
// made for a Service with a proxy's name may lack that label.
func (e EndpointSlice) Ours(proxy string) bool {
	l := e.Metadata.Labels
	return l.ServiceName != "" && l.Headless == nil && (l.Of(proxy) || proxy != "" && l.ProxyName == nil)
}

// OtherFamily is why an address of a service is left out, here as by kube-proxy.
const OtherFamily = "the cluster IPs have no address of its family"

type converter struct {
	service  sources.Service
	problems []sources.Problem
	others   []netip.Addr // external IPs of another family
}

func (c *converter) refuse(format string, args ...any) {
	c.problems = append(c.problems, sources.Problem{
		Service: c.service.FullName(), Origin: c.service.Origin, Message: fmt.Sprintf(format, args...),
	})
}

// spec reads the fields that every type of service has.
func (c *converter) spec(spec ServiceSpec) {
	s := &c.service
	s.Type = sources.Type(cmp.Or(spec.Type, string(sources.ClusterIP)))
	s.ExternalTrafficPolicy = c.policy("externalTrafficPolicy", spec.ExternalTrafficPolicy)
	s.InternalTrafficPolicy = c.policy("internalTrafficPolicy", spec.InternalTrafficPolicy)
	s.AffinityTimeout = sources.DefaultAffinityTimeout
	if slices.Contains(clusterIPs(spec), "None") {
		s.Type = sources.Headless
	}
	for _, p := range spec.Ports {
		c.port(p)
	}
}

func (c *converter) policy(name, value string) sources.TrafficPolicy {
	switch p := sources.TrafficPolicy(cmp.Or(value, string(sources.Cluster))); p {
	case sources.Cluster, sources.Local:
		return p
	}
	c.refuse("%s %q is not one of Cluster, Local", name, value)
	return sources.Cluster
}

func (c *converter) port(p ServicePort) {
	protocol, err := sources.ParseProtocol(cmp.Or(p.Protocol, "TCP"))
	if err != nil {
		c.refuse("port %d: %v", p.Port, err)
		return
	}
	out := sources.Port{Name: p.Name, Protocol: protocol}
	if out.Port = c.number("port", p.Port); p.Port == 0 {
		c.refuse("port %q has no port number", p.Name)
	}
	out.TargetPort = cmp.Or(c.number("targetPort", int32(p.TargetPort)), out.Port)
	if c.service.Type == sources.NodePort || c.service.Type == sources.LoadBalancer {
		out.NodePort = c.number("nodePort", p.NodePort)
	}
	c.service.Ports = append(c.service.Ports, out)
}

// number reads a port; 0 if there is none.
func (c *converter) number(what string, port int32) uint16 {
	if port < 0 || port > math.MaxUint16 {
		c.refuse("%s %d is not a port: must be 1 to 65535", what, port)
		return 0
	}
	return uint16(port)
}

func clusterIPs(spec ServiceSpec) []string {
	if len(spec.ClusterIPs) == 0 && spec.ClusterIP != "" {
		return []string{spec.ClusterIP}
	}
	return spec.ClusterIPs
}

// addresses reads the VIPs and their source ranges. Like kube-proxy, it leaves out VIPs of a family that the cluster
// IPs do not have: the service has no endpoints of that family. Only external IPs are reported, which a person wrote:
// load balancer IPs stay for a while when a service goes from two families to one.
func (c *converter) addresses(in Service) {
	s := &c.service
	for _, text := range clusterIPs(in.Spec) {
		if a, ok := c.addr("clusterIP", text); ok {
			s.ClusterIPs = append(s.ClusterIPs, a)
		}
	}
	if s.Type == sources.LoadBalancer {
		c.balancer(in)
	}
	for _, text := range in.Spec.ExternalIPs {
		// An external IP that is also a load balancer IP counts as the latter, so that its source ranges apply.
		switch a, ok := c.addr("externalIP", text); {
		case !ok || s.HasVIP(a):
		case c.ofFamily(a):
			s.ExternalIPs = append(s.ExternalIPs, a)
		default:
			c.others = append(c.others, a)
		}
	}
}

// balancer reads the fields of a service of type LoadBalancer.
func (c *converter) balancer(in Service) {
	s := &c.service
	for _, i := range in.Status.LoadBalancer.Ingress {
		c.ingress(i)
	}
	for _, text := range in.Spec.LoadBalancerSourceRanges {
		p, clean, err := parsePrefix(strings.TrimSpace(text))
		if err != nil || p.Addr().Is4In6() {
			c.refuse("loadBalancerSourceRanges: %q is not a CIDR", text)
			continue
		}
		c.legacy("loadBalancerSourceRanges:", text, clean)
		s.SourceRanges = append(s.SourceRanges, p)
	}
	if s.ExternalTrafficPolicy == sources.Local {
		s.HealthCheckNodePort = c.number("healthCheckNodePort", in.Spec.HealthCheckNodePort)
	}
}

// ingress reads a load balancer's address, unless it is a host name.
func (c *converter) ingress(i Ingress) {
	if i.IP == "" {
		return
	}
	mode := sources.IPMode(i.IPMode)
	switch mode {
	case sources.IPModeDefault, sources.IPModeVIP, sources.IPModeProxy:
	default:
		c.refuse("load balancer IP %s: ipMode %q is not one of VIP, Proxy", i.IP, i.IPMode)
		return
	}
	if a, ok := c.addr("load balancer IP", i.IP); ok && c.ofFamily(a) && !c.service.HasVIP(a) {
		c.service.LoadBalancerIPs = append(c.service.LoadBalancerIPs, sources.VIP{Addr: a, Mode: mode})
	}
}

func (c *converter) addr(what, text string) (netip.Addr, bool) {
	a, clean, err := parseAddr(text)
	if err != nil {
		c.refuse("%s %q is not an IP address", what, text)
		return netip.Addr{}, false
	}
	c.legacy(what, text, clean)
	return a, true
}

// legacy notes a value with leading zeros.
func (c *converter) legacy(what, text, clean string) {
	if clean != "" {
		c.service.Legacy = append(c.service.Legacy, fmt.Sprintf("%s %q is read as %s", what, text, clean))
	}
}

// ofFamily reports whether the service is of an address's family. A service without a cluster IP is of both families.
func (c *converter) ofFamily(a netip.Addr) bool {
	own := c.service.ClusterIPs
	return len(own) == 0 || slices.ContainsFunc(own, func(o netip.Addr) bool { return o.Is4() == a.Is4() })
}

// tuning reads how connections are distributed.
func (c *converter) tuning(spec ServiceSpec) {
	s := &c.service
	switch spec.SessionAffinity {
	case "", "None":
	case string(sources.AffinityClientIP):
		s.Affinity = sources.AffinityClientIP
		if t := spec.SessionAffinityConfig.ClientIP.TimeoutSeconds; t != 0 {
			s.AffinityTimeout = time.Duration(t) * time.Second
		}
	default:
		c.refuse("sessionAffinity %q is not one of None, ClientIP", spec.SessionAffinity)
	}
	s.PublishNotReadyAddresses = spec.PublishNotReadyAddresses
	switch spec.TrafficDistribution {
	case "PreferClose", string(sources.PreferSameZone): // the old name of PreferSameZone
		s.TrafficDistribution = sources.PreferSameZone
	case string(sources.PreferSameNode):
		s.TrafficDistribution = sources.PreferSameNode
	}
}

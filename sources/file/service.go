package file

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file/strict"
)

// draft is a service while its table is read: endpoints are resolved last, when the ports, which may
// stand below them, are known.
type draft struct {
	sources.Service
	clusterIP    bool // the singular key was given
	clusterIPs   bool // the plural one
	affinityTime node // sessionAffinityTimeout as given
	endpoints    []draftEndpoint
}

func readServices(d *decoder, n node, into *sources.Table) {
	services, ok := n.v.(map[string]any)
	if !ok {
		d.mistyped(n, "a table, [services.NAME] for each service")
		return
	}
	names := map[string]int{} // full name to line: "web" and "default/web" are one
	for _, key := range sortedByLine(services, n.at) {
		s, ok := d.readService(node{key, n.at.Key(key), services[key]})
		if !ok {
			continue
		}
		if first, twice := names[s.FullName()]; twice {
			d.service = s.FullName()
			d.refuse(node{at: n.at.Key(key)}, "defined twice, first at line %d", first)
			continue
		}
		names[s.FullName()] = s.Origin.Line
		into.Services = append(into.Services, s)
	}
	d.service = ""
	into.Sort()
}

// sortedByLine gives a table's keys as the file has them, so that the first of two equals is the first.
func sortedByLine(t map[string]any, at *strict.Place) []string {
	keys := make([]string, 0, len(t))
	for key := range t {
		keys = append(keys, key)
	}
	line := func(key string) int { return node{at: at.Key(key)}.line() }
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(line(a), line(b)), cmp.Compare(a, b))
	})
	return keys
}

// readService reads [services.KEY]; false when it has a problem.
func (d *decoder) readService(n node) (sources.Service, bool) {
	before := len(d.problems)
	s := draft{Service: sources.Service{
		Namespace:             sources.DefaultNamespace,
		Name:                  n.key,
		Type:                  sources.ClusterIP,
		ExternalTrafficPolicy: sources.Cluster,
		InternalTrafficPolicy: sources.Cluster,
		AffinityTimeout:       sources.DefaultAffinityTimeout,
		Origin:                d.origin,
	}}
	s.Origin.Line = n.line()
	if namespace, name, ok := strings.Cut(n.key, "/"); ok {
		s.Namespace, s.Name = namespace, name
	}
	d.service = s.FullName()
	if strict.Spare(n.key) {
		d.service = ""
	}

	if _, ok := n.v.(map[string]any); !ok {
		d.refuse(n, "a service must be a table: write [services.%s]", n.key)
		return sources.Service{}, false
	}
	table(d, n, serviceFields, &s)
	if s.clusterIP && s.clusterIPs {
		d.refuse(n, "clusterIP and clusterIPs are both given: write one of them")
	}
	if s.affinityTime.key != "" && s.Affinity == sources.AffinityNone {
		d.refuse(s.affinityTime, `sessionAffinityTimeout has no effect without sessionAffinity = "ClientIP"`)
	}
	d.resolve(&s)
	return s.Service, len(d.problems) == before && !strict.Spare(n.key)
}

var serviceFields = fields[draft]{
	"type": func(d *decoder, n node, s *draft) {
		word(d, n, &s.Type, sources.ClusterIP, sources.NodePort, sources.LoadBalancer, sources.Headless, sources.ExternalName)
	},
	"clusterIP": func(d *decoder, n node, s *draft) {
		s.clusterIP = true
		if n.v == "None" {
			d.refuse(n, `clusterIP "None": write type = "Headless" and no clusterIP`)
		} else if a, ok := d.addr(n); ok {
			s.ClusterIPs = append(s.ClusterIPs, a)
		}
	},
	"clusterIPs": func(d *decoder, n node, s *draft) {
		s.clusterIPs = true
		d.addrs(n, &s.ClusterIPs)
	},
	"externalIPs":     func(d *decoder, n node, s *draft) { d.addrs(n, &s.ExternalIPs) },
	"loadBalancerIPs": readVIPs,
	"loadBalancerSourceRanges": func(d *decoder, n node, s *draft) {
		d.list(n, "CIDRs", func(n node) { readRange(d, n, &s.SourceRanges) })
	},
	"ports": readPorts,
	"externalTrafficPolicy": func(d *decoder, n node, s *draft) {
		word(d, n, &s.ExternalTrafficPolicy, sources.Cluster, sources.Local)
	},
	"internalTrafficPolicy": func(d *decoder, n node, s *draft) {
		word(d, n, &s.InternalTrafficPolicy, sources.Cluster, sources.Local)
	},
	"sessionAffinity": func(d *decoder, n node, s *draft) {
		if n.v == "None" { // Kubernetes' word for it
			return
		}
		s.Affinity = sources.AffinityClientIP // until read: a bad word is one mistake, not two
		word(d, n, &s.Affinity, sources.AffinityNone, sources.AffinityClientIP)
	},
	"sessionAffinityTimeout": func(d *decoder, n node, s *draft) {
		s.affinityTime = n
		d.duration(n, &s.AffinityTimeout)
	},
	"healthCheckNodePort":      func(d *decoder, n node, s *draft) { d.port(n, &s.HealthCheckNodePort) },
	"publishNotReadyAddresses": func(d *decoder, n node, s *draft) { d.flag(n, &s.PublishNotReadyAddresses) },
	"trafficDistribution": func(d *decoder, n node, s *draft) {
		word(d, n, &s.TrafficDistribution, sources.DistributeEvenly, sources.PreferSameZone, sources.PreferSameNode)
	},
	"scheduler": func(d *decoder, n node, s *draft) { d.text(n, &s.Scheduler) },
	"drainTimeout": func(d *decoder, n node, s *draft) {
		// "0s" is an answer: to the last connection, whatever the node's default is.
		var timeout time.Duration
		d.duration(n, &timeout)
		s.DrainTimeout = &timeout
	},
	"endpoints": readEndpoints,
}

func readVIPs(d *decoder, n node, s *draft) {
	d.list(n, `IP addresses, or tables { ip = "...", ipMode = "..." }`, func(n node) {
		var vip sources.VIP
		if _, ok := n.v.(map[string]any); !ok {
			if a, ok := d.addr(n); ok {
				s.LoadBalancerIPs = append(s.LoadBalancerIPs, sources.VIP{Addr: a})
			}
			return
		}
		before := len(d.problems)
		table(d, n, vipFields, &vip)
		switch {
		case len(d.problems) > before:
		case !vip.Addr.IsValid():
			d.refuse(n, "a load balancer IP has no ip")
		default:
			s.LoadBalancerIPs = append(s.LoadBalancerIPs, vip)
		}
	})
}

var vipFields = fields[sources.VIP]{
	"ip": func(d *decoder, n node, v *sources.VIP) {
		v.Addr, _ = d.addr(n)
	},
	"ipMode": func(d *decoder, n node, v *sources.VIP) {
		word(d, n, &v.Mode, sources.IPModeDefault, sources.IPModeVIP, sources.IPModeProxy)
	},
}

// readRange reads a CIDR as an API server does: spaces around it do not count.
func readRange(d *decoder, n node, into *[]netip.Prefix) {
	s, ok := n.v.(string)
	if !ok {
		d.mistyped(n, `a CIDR in quotes such as "10.0.0.0/8"`)
		return
	}
	p, err := netip.ParsePrefix(strings.TrimSpace(s))
	if err != nil {
		hint := ` such as "10.0.0.0/8"`
		if a, err := netip.ParseAddr(strings.TrimSpace(s)); err == nil && a.Zone() == "" {
			hint = `: write "` + netip.PrefixFrom(a, a.BitLen()).String() + `"`
		}
		d.refuse(n, "%s %q is not a CIDR%s", n.key, s, hint)
		return
	}
	if p.Addr().Is4In6() {
		d.refuse(n, "%s %q is an IPv4 range in IPv6 clothing: write it as IPv4", n.key, s)
		return
	}
	if p != p.Masked() {
		d.warn(n, "%s %q has bits beyond its prefix length: taken as %q", n.key, s, p.Masked())
	}
	*into = append(*into, p.Masked())
}

func readPorts(d *decoder, n node, s *draft) {
	d.list(n, "tables { port = 80, ... }", func(n node) {
		p := sources.Port{Protocol: sources.TCP}
		before := len(d.problems)
		table(d, n, portFields, &p)
		switch {
		case len(d.problems) > before:
			return
		case p.Port == 0:
			d.refuse(n, "a port has no port number: write port = 80")
			return
		case p.TargetPort == 0:
			p.TargetPort = p.Port
		}
		s.Ports = append(s.Ports, p)
	})
}

var portFields = fields[sources.Port]{
	"name":       func(d *decoder, n node, p *sources.Port) { d.text(n, &p.Name) },
	"port":       func(d *decoder, n node, p *sources.Port) { d.port(n, &p.Port) },
	"targetPort": func(d *decoder, n node, p *sources.Port) { d.port(n, &p.TargetPort) },
	"nodePort":   func(d *decoder, n node, p *sources.Port) { d.port(n, &p.NodePort) },
	"protocol": func(d *decoder, n node, p *sources.Port) {
		var name string
		before := len(d.problems)
		word(d, n, &name, "TCP", "UDP", "SCTP")
		if len(d.problems) == before {
			p.Protocol, _ = sources.ParseProtocol(name)
		}
	},
}

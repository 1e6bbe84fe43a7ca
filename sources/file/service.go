package file

import (
	"cmp"
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
		if d.full() {
			break
		}
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
	namespace, name, ok := strings.Cut(n.key, "/")
	if !ok {
		namespace, name = sources.DefaultNamespace, n.key
	}
	s := &d.draft
	*s = draft{endpoints: s.endpoints[:0], Service: sources.Service{
		Namespace:             d.own(namespace),
		Name:                  strings.Clone(name),
		Type:                  sources.ClusterIP,
		ExternalTrafficPolicy: sources.Cluster,
		InternalTrafficPolicy: sources.Cluster,
		AffinityTimeout:       sources.DefaultAffinityTimeout,
		Origin:                d.origin,
	}}
	s.Origin.Line = n.line()
	d.service = s.FullName()
	if strict.Spare(n.key) {
		d.service = ""
	}

	if _, ok := n.v.(map[string]any); !ok {
		d.refuse(n, "a service must be a table: write [services.%s]", n.key)
		return sources.Service{}, false
	}
	table(d, n, serviceFields, s)
	if s.clusterIP && s.clusterIPs {
		d.refuse(n, "clusterIP and clusterIPs are both given: write one of them")
	}
	if s.affinityTime.key != "" && s.Affinity == sources.AffinityNone {
		d.refuse(s.affinityTime, `sessionAffinityTimeout has no effect without sessionAffinity = "ClientIP"`)
	}
	d.resolve(s, n)
	return s.Service, len(d.problems) == before && !strict.Spare(n.key)
}

var serviceFields = fields[draft]{
	{"type", wordAt(func(s *draft) *sources.Type { return &s.Type },
		sources.ClusterIP, sources.NodePort, sources.LoadBalancer, sources.Headless, sources.ExternalName),
		`"ClusterIP"`, "what it may be reached by, as in Kubernetes; Headless and ExternalName serve nothing"},
	{"clusterIPs", value[draft]{Addresses, nil, readClusterIPs},
		"", "virtual addresses, at most one of each family"},
	{"clusterIP", value[draft]{Address, nil, readClusterIP},
		"", "the same with one address"},
	{"ports", value[draft]{Tables, nil, readPorts},
		"", "at least one"},
	{"endpoints", value[draft]{AddressesOrTables, nil, readEndpoints},
		"", "where it is served; an address alone is a table with nothing else; none: connections are refused"},
	{"externalIPs", value[draft]{Addresses, nil, readExternalIPs},
		"", "further virtual addresses; the node's own are served and not bound"},
	{"loadBalancerIPs", value[draft]{AddressesOrTables, nil, readVIPs},
		"", "virtual addresses of type LoadBalancer"},
	{"loadBalancerSourceRanges", value[draft]{CIDRs, nil, readSourceRanges},
		"", "who may use the loadBalancerIPs; absent: everyone"},
	{"externalTrafficPolicy", wordAt(func(s *draft) *sources.TrafficPolicy { return &s.ExternalTrafficPolicy }, sources.Cluster, sources.Local),
		`"Cluster"`, "Local: from outside only to endpoints on this node, and the client's address is kept"},
	{"internalTrafficPolicy", wordAt(func(s *draft) *sources.TrafficPolicy { return &s.InternalTrafficPolicy }, sources.Cluster, sources.Local),
		`"Cluster"`, "Local: to the cluster IPs only to endpoints on this node"},
	{"sessionAffinity", value[draft]{Word, []string{"None", string(sources.AffinityClientIP), string(sources.AffinityNone)}, readAffinity},
		`"None"`, "ClientIP: a client stays with its endpoint"},
	{"sessionAffinityTimeout", value[draft]{Duration, nil, readAffinityTimeout},
		`"3h"`, "how long after its last connection, 1s to 24h"},
	{"healthCheckNodePort", portAt(func(s *draft) *uint16 { return &s.HealthCheckNodePort }),
		"", "where the node tells a load balancer whether it has endpoints; type LoadBalancer with externalTrafficPolicy Local"},
	{"publishNotReadyAddresses", flagAt(func(s *draft) *bool { return &s.PublishNotReadyAddresses }),
		"false", "serve endpoints that are not ready, too"},
	{"trafficDistribution", wordAt(func(s *draft) *sources.TrafficDistribution { return &s.TrafficDistribution },
		sources.DistributeEvenly, sources.PreferSameZone, sources.PreferSameNode),
		`""`, "prefer endpoints that are near"},
	{"scheduler", schedulerAt(func(s *draft) *string { return &s.Scheduler }),
		"", "of this service; absent: ipvs.scheduler of svcproxy.toml"},
	{"drainTimeout", optionalDurationAt(func(s *draft) **time.Duration { return &s.DrainTimeout }),
		"", `longest drain of an endpoint that left; "0s": until its last connection ends; absent: ipvs.drainTimeout of svcproxy.toml`},
}

func readAffinity(d *decoder, n node, s *draft) {
	if given, _ := n.text(); given == "None" { // Kubernetes' word for it
		return
	}
	s.Affinity = sources.AffinityClientIP // until read: a bad word is one mistake, not two
	word(d, n, &s.Affinity, sources.AffinityNone, sources.AffinityClientIP)
}

func readAffinityTimeout(d *decoder, n node, s *draft) {
	s.affinityTime = n
	d.duration(n, &s.AffinityTimeout)
}

package file

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// draft is a service while its table is read. Endpoints are resolved last, because the ports may stand below them.
type draft struct {
	sources.Service
	d            *decoder
	affinityTime node  // sessionAffinityTimeout as given
	keepClient   *bool // keepClientAddress; nil if absent
	namedCheck   string
	limits       limits
	flags        []schedulerFlag
	ports        []draftPort // Ports, before ranges are written out
	endpoints    []draftEndpoint
}

// services reads the table of all services.
func (d *decoder) services(n node, into *sources.Table) error {
	if !n.IsTable() {
		return n.Mistyped("a table, [services.NAME] for each service")
	}
	var all []sources.Service
	names := map[string]int{} // full name to line: "web" and "default/web" are one
	for _, service := range sortedByLine(n) {
		if d.full() {
			break
		}
		s, ok := d.readService(service)
		if !ok {
			continue
		}
		if first, twice := names[s.FullName()]; twice {
			d.refuse(service, "defined twice, first at line %d", first)
			continue
		}
		names[s.FullName()] = s.Origin.Line
		all = append(all, s)
	}
	d.reading = false
	into.Services = sources.ServicesOf(all...)
	into.Sort()
	return nil
}

// sortedByLine returns a table's values in the order of the file.
func sortedByLine(table node) []node {
	values := make([]node, table.Size())
	for i, key := range table.Keys() {
		values[i], _ = table.Under(key)
	}
	sources.SortStableFunc(values, func(a, b node) int { return cmp.Compare(a.Line(), b.Line()) })
	return values
}

// readService reads [services.KEY]. It returns false if the service has a problem.
func (d *decoder) readService(n node) (sources.Service, bool) {
	before := len(d.problems)
	key := strings.Clone(n.Key) // the text of the file must not stay in memory
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		namespace, name = sources.DefaultNamespace, key
	}
	s := &d.draft
	*s = draft{d: d, ports: s.ports[:0], endpoints: s.endpoints[:0], Service: sources.Service{
		Namespace:             namespace,
		Name:                  name,
		Type:                  sources.ClusterIP,
		ExternalTrafficPolicy: sources.Cluster,
		InternalTrafficPolicy: sources.Cluster,
		AffinityTimeout:       sources.DefaultAffinityTimeout,
		Origin:                d.origin,
	}}
	s.Origin.Line = n.Line()
	d.reading = true

	if !n.IsTable() {
		d.refuse(n, "a service must be a table: write [services.%s]", n.Key)
		return sources.Service{}, false
	}
	table(d, n, serviceFields(), s)
	for _, pair := range synonyms {
		if n.Has(pair[0]) && n.Has(pair[1]) {
			d.refuse(n, "%s and %s are both given: write one of them", pair[0], pair[1])
			return sources.Service{}, false
		}
	}
	s.clientAddress(n)
	s.checkClients(n)
	if !n.Has("type") {
		s.Type = inferType(&s.Service, s.hasNodePort())
	}
	ports, fits := d.fits(s, n)
	if !fits {
		return sources.Service{}, false
	}
	s.expand(ports)
	if s.FWMark != 0 {
		if len(s.ports) > 0 {
			d.refuse(n, "fwmark and ports are both given: the rules that mark packets also choose the port")
			return sources.Service{}, false
		}
		s.SetMark(s.FWMark)
	}
	namePorts(s.Ports)
	if s.affinityTime.Key != "" && s.Affinity == sources.AffinityNone {
		d.refuse(s.affinityTime, `sessionAffinityTimeout has no effect without sessionAffinity = "ClientIP"`)
	}
	s.otherFlags()
	d.resolve(s)
	s.Weighted = s.Scheduler == ""
	return s.Service, len(d.problems) == before
}

// synonyms are pairs of keys of a service that say the same.
var synonyms = [][2]string{{"clusterIP", "clusterIPs"}, {"vips", "loadBalancerIPs"}, {"port", "ports"},
	{"backends", "endpoints"}}

// inferType returns the type of a service that names none: the least one that its addresses and ports need.
func inferType(s *sources.Service, nodePort bool) sources.Type {
	switch {
	case len(s.LoadBalancerIPs) > 0:
		return sources.LoadBalancer
	case nodePort:
		return sources.NodePort
	}
	return sources.ClusterIP
}

func hasNodePort(s *sources.Service) bool {
	return slices.ContainsFunc(s.Ports, func(p sources.Port) bool { return p.NodePort != 0 })
}

func (s *draft) hasNodePort() bool {
	return slices.ContainsFunc(s.ports, func(p draftPort) bool { return p.NodePort != 0 })
}

var serviceFields = sync.OnceValue(func() fields.Table[draft] {
	return fields.Table[draft]{
		fields.Define("type", fields.At(func(s *draft) *sources.Type { return &s.Type },
			word(sources.ClusterIP, sources.NodePort, sources.LoadBalancer, sources.Headless, sources.ExternalName)),
			"", `what it may be reached by, as in Kubernetes; absent: "LoadBalancer" with vips, "NodePort" with a nodePort, `+
				`else "ClusterIP"; Headless and ExternalName serve nothing`),
		fields.Define("vips", fields.Custom(fields.KindAddressesOrTables, readVIPs),
			"", "virtual addresses that clients outside use: another word for loadBalancerIPs"),
		fields.Define("keepClientAddress", fields.AtPointer(func(s *draft) **bool { return &s.keepClient }, fields.Bool),
			"", "with vips: true: endpoints see the client's address, and answer by way of this node: at most one VIP of each "+
				"family, as clusterIPs; "+
				"false: they see this node's"),
		fields.Define("fwmark", fields.At(func(s *draft) *uint32 { return &s.FWMark }, serviceMark),
			"", "mode ipvs: instead of addresses and ports: the firewall mark of its packets, which your own rules set; they "+
				"arrive at this node "+
				"by an address or a local route of yours; endpoints see the client's address, and the packet's port unless they "+
				"have one"),
		fields.Define("port", portOrRange(readPort),
			"", "its only port, TCP and the same on the endpoints; short for ports = [80]; or a range of them"),
		fields.Define("clusterIPs", fields.Custom(fields.KindAddresses, readClusterIPs),
			"", "virtual addresses, at most one of each family"),
		fields.Define("clusterIP", fields.Custom(fields.KindAddress, readClusterIP),
			"", "the same with one address"),
		fields.Define("ports", fields.Custom(fields.KindPortsOrTables, readPorts),
			"", `at least one; a number alone is a table with nothing else; a range "10000-10100" is all of its ports, the `+
				`same on the endpoints, 1,000 at most`),
		fields.Define("backends", fields.Custom(fields.KindAddressesOrTables, readEndpoints),
			"", "where it is served: another word for endpoints"),
		fields.Define("endpoints", fields.Custom(fields.KindAddressesOrTables, readEndpoints),
			"", "where it is served; an address alone, or ADDRESS:PORT, is a table with nothing else; none: connections are "+
				"refused"),
		fields.Define("externalIPs", fields.Custom(fields.KindAddresses, func(s *draft, n node) error {
			return s.d.addrs(n, &s.ExternalIPs)
		}),
			"", "further virtual addresses; the node's own are served and not bound"),
		fields.Define("takeHostPorts", fields.At(func(s *draft) *bool { return &s.TakeHostPorts }, fields.Bool),
			"false", "serve it also at an address and port of this node where a program listens, "+
				"which gets no new connections then; false: the service is left out there until the program stops"),
		fields.Define("loadBalancerIPs", fields.Custom(fields.KindAddressesOrTables, readVIPs),
			"", "virtual addresses of type LoadBalancer"),
		fields.Define("loadBalancerSourceRanges", fields.Custom(fields.KindCIDRs, readSourceRanges),
			"", "who may use the loadBalancerIPs; absent: everyone"),
		fields.Define("allow", fields.Custom(fields.KindStrings, readAllow),
			"", `which clients may use the service: CIDRs, and "@NAME" for the list NAME of sources.file.lists; absent: all`),
		fields.Define("deny", fields.Custom(fields.KindStrings, readDeny),
			"", "which of them may not"),
		fields.Define("limits", fields.Custom(fields.KindTable, readLimits),
			"", "how fast clients may connect, and how often"),
		fields.Define("externalTrafficPolicy", fields.At(func(s *draft) *sources.TrafficPolicy {
			return &s.ExternalTrafficPolicy
		}, word(sources.Cluster, sources.Local)),
			`"Cluster"`, "Local: from outside only to endpoints on this node, and the client's address is kept"),
		fields.Define("internalTrafficPolicy", fields.At(func(s *draft) *sources.TrafficPolicy {
			return &s.InternalTrafficPolicy
		}, word(sources.Cluster, sources.Local)),
			`"Cluster"`, "Local: to the cluster IPs only to endpoints on this node"),
		fields.Define("sessionAffinity", fields.Value[draft]{Kind: fields.KindWord,
			Words: []string{noAffinity, string(sources.AffinityClientIP), string(sources.AffinityNone)}, Set: readAffinity},
			`"None"`, "ClientIP: a client stays with its endpoint"),
		fields.Define("sessionAffinityTimeout", fields.Custom(fields.KindDuration, readAffinityTimeout),
			`"3h"`, "how long after its last connection, 1s to 24h"),
		fields.Define("sessionAffinityPrefix4", fields.At(func(s *draft) *uint8 {
			return &s.AffinityPrefix4
		}, prefixLength(32)),
			"32", "with sessionAffinity: clients in one IPv4 network of this prefix length have one endpoint, 1 to 32"),
		fields.Define("sessionAffinityPrefix6", fields.At(func(s *draft) *uint8 {
			return &s.AffinityPrefix6
		}, prefixLength(128)),
			"128", "the same for IPv6, 1 to 128"),
		fields.Define("healthCheckNodePort", fields.At(func(s *draft) *uint16 { return &s.HealthCheckNodePort }, fields.Port),
			"", "where the node tells a load balancer whether it has endpoints; type LoadBalancer with externalTrafficPolicy "+
				"Local"),
		fields.Define("publishNotReadyAddresses", fields.At(func(s *draft) *bool {
			return &s.PublishNotReadyAddresses
		}, fields.Bool),
			"false", "serve endpoints that are not ready, too"),
		fields.Define("trafficDistribution", fields.At(func(s *draft) *sources.TrafficDistribution {
			return &s.TrafficDistribution
		},
			word(sources.DistributeEvenly, sources.PreferSameZone, sources.PreferSameNode)),
			`""`, "prefer endpoints that are near"),
		fields.Define("scheduler", fields.At(func(s *draft) *string { return &s.Scheduler }, scheduler),
			"", `of this service; absent: ipvs.scheduler of svcproxy.toml, and if that is absent, "wrr"`),
		fields.Define("schedulerFlags", fields.Custom(fields.KindStrings, readSchedulerFlags),
			"", `the flags of scheduler "sh" or "mh", as in ipvsadm: "sh-fallback" gives clients of an endpoint that is out `+
				`another one, "sh-port" spreads a client's connections; `+
				`"mh-fallback" and "mh-port"; absent: ["sh-fallback"], ["mh-fallback", "mh-port"]`),
		fields.Define("onePacket", fields.At(func(s *draft) *bool { return &s.OnePacket }, fields.Bool),
			"false", "mode ipvs: each datagram of a UDP port is balanced alone, without a connection (ipvsadm -o); replies of "+
				"masqueraded endpoints do not reach clients then"),
		fields.Define("maxConnections", fields.AtPointer(func(s *draft) **uint32 { return &s.limits.most }, connections),
			"", "of endpoints that give none themselves: how many connections each may have at each port before it gets no "+
				"new ones; 0: no limit"),
		fields.Define("resumeConnections", fields.AtPointer(func(s *draft) **uint32 { return &s.limits.resume }, connections),
			"", "of endpoints that give none themselves: an endpoint at maxConnections gets new ones again below this number; "+
				"absent: below three quarters of maxConnections"),
		fields.Define("forward", fields.At(func(s *draft) *sources.Forward { return &s.Forward }, word(sources.Forwards...)),
			"", `mode ipvs: how packets reach the endpoints: "masquerade", or unchanged: "direct" in this node's networks, `+
				`"ipip" or "gue" by a tunnel; then `+
				"the endpoints have the VIPs and answer past this node, and targetPort is port; node ports are masqueraded; "+
				"absent: ipvs.forward of svcproxy.toml"),
		fields.Define("drainTimeout", fields.AtPointer(func(s *draft) **time.Duration {
			return &s.DrainTimeout
		}, fields.Duration),
			"", `longest drain of an endpoint that left; "0s": until its last connection ends; absent: ipvs.drainTimeout of `+
				`svcproxy.toml`),
		fields.Define("announce", fields.AtPointer(func(s *draft) **bool { return &s.Announce }, fields.Bool),
			"", "with announce.mode of svcproxy.toml: whether routing daemons are told of its virtual addresses; absent: of "+
				"externalIPs and loadBalancerIPs, with mode vrrp of all"),
		fields.Define("announceMinHealthy", fields.AtPointer(func(s *draft) **int { return &s.AnnounceMinHealthy },
			fields.Int(0, sources.MostEndpoints)),
			"", "how many of its endpoints, backups not counted, must be up for this node to have its VIPs; 0: always; absent: "+
				"announce.minHealthy of svcproxy.toml, which counts backups that serve"),
		fields.Define("healthCheck", fields.Custom(fields.KindStringOrTable, readCheck),
			`"off"`, `how its endpoints are checked: "tcp", "tls", "grpc", "udp", "ping" or "agent"; "http:/PATH", `+
				`"https:/PATH", "dns:NAME" or "exec:/PROGRAM"; "@NAME" for [healthChecks.NAME] of this file; or a table`),
	}
})

// scheduler is any string: Validate knows the schedulers, and which of them the kernel has.
var scheduler = fields.Type[string]{Kind: fields.KindWord, Words: sources.Schedulers(), Read: fields.String.Read}

// serviceMark is a mark that packets can have: not 0.
var serviceMark = fields.Type[uint32]{
	Kind: mark.Kind, Min: 1, Max: mark.Max,
	Read: func(n node) (uint32, error) {
		m, err := mark.Read(n)
		if err == nil && m == 0 {
			err = errors.New("is 0, which packets without a mark have")
		}
		return m, err
	},
}

const noAffinity = "None" // what Kubernetes writes for ""

var affinity = word(sources.AffinityNone, sources.AffinityClientIP)

func readAffinity(s *draft, n node) (err error) {
	if given, _ := n.Text(); given == noAffinity {
		return nil
	}
	if s.Affinity, err = affinity.Read(n); err != nil {
		s.Affinity = sources.AffinityClientIP // else sessionAffinityTimeout would be a second problem
	}
	return err
}

func readAffinityTimeout(s *draft, n node) (err error) {
	s.affinityTime = n
	s.AffinityTimeout, err = fields.Duration.Read(n)
	return err
}

package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/svcproxy/svcproxy/proxy/status"
	"github.com/svcproxy/svcproxy/sources"
)

// MaxServices and MaxEndpoints bound how many services and endpoints have their own series.
const (
	MaxServices  = 10_000
	MaxEndpoints = 50_000
)

// The metrics of each service and endpoint. A service has two labels of the same value: a scraper that finds its
// targets in Kubernetes sets service itself and renames ours to exported_service, so our dashboards use name.
var (
	backends = serviceDesc("service_backends",
		"Endpoints of a service that get new connections, each once for each port.")
	active      = serviceDesc("service_active_connections", "Established connections to a service.")
	connections = serviceDesc("service_connections_total", "Connections to a service.")
	packets     = serviceDesc("service_packets_total", "Packets to a service (in) and from it (out).", "direction")
	bytes       = serviceDesc("service_bytes_total", "Bytes of packets to a service (in) and from it (out).", "direction")
	refusals    = serviceDesc("service_refusals_total",
		"First packets of connections to a service that its allow, deny or limits refused.", "reason")
	digest = serviceDesc("service_digest",
		"A hash of a service's virtual servers with scheduler mh, except node ports. "+
			"Nodes that send clients to the same endpoints have the same.")
	unlisted = desc("services_unlisted", "Services without their own series, because there are too many.")

	endpointActive = serviceDesc("endpoint_active_connections",
		"Established connections to a service's endpoint.", "port", "protocol", "endpoint")
	endpointInactive = serviceDesc("endpoint_inactive_connections",
		"Connections to a service's endpoint that are closing, and all UDP ones.", "port", "protocol", "endpoint")
	endpointConnections = serviceDesc("endpoint_connections_total",
		"Connections to a service's endpoint, in mode nftables, which counts no others.", "port", "protocol", "endpoint")
	endpointWeight = serviceDesc("endpoint_weight",
		"Weight of a service's endpoint. One with weight 0 gets no new connections.", "port", "protocol", "endpoint")
)

// serviceDesc describes a metric of services, which has the labels of a service before its own.
func serviceDesc(name, help string, labels ...string) *prometheus.Desc {
	return desc(name, help, append([]string{"service", "name"}, labels...)...)
}

// of returns the values of a service's labels.
func of(service string, labels ...string) []string {
	return append([]string{service, service}, labels...)
}

func (s statusCollector) services(out output) {
	listed := s.status.Services
	if len(listed) > MaxServices {
		listed = listed[:MaxServices]
	}
	out.gauge(unlisted, float64(len(s.status.Services)-len(listed)))
	for i := range listed {
		svc := &listed[i]
		if !hasSeries(svc) {
			continue
		}
		out.gauge(backends, float64(svc.Backends.Serving), of(svc.Name)...)
		if n, ok := svc.DigestNumber(); ok && hashed(svc) {
			out.gauge(digest, n, of(svc.Name)...)
		}
		for why, n := range svc.Refused {
			out.counter(refusals, n, of(svc.Name, string(why))...)
		}
		if s.traffic != nil {
			out.counter(connections, s.traffic[i].Connections, of(svc.Name)...)
		}
		if s.status.Uncounted {
			continue
		}
		out.gauge(active, float64(svc.Active), of(svc.Name)...)
		out.counter(packets, uint64(s.traffic[i].InPackets), of(svc.Name, "in")...)
		out.counter(packets, uint64(s.traffic[i].OutPackets), of(svc.Name, "out")...)
		out.counter(bytes, uint64(s.traffic[i].InBytes), of(svc.Name, "in")...)
		out.counter(bytes, uint64(s.traffic[i].OutBytes), of(svc.Name, "out")...)
	}
	if s.endpoints != "" {
		s.endpointSeries(out)
	}
}

// hashed reports whether equal tables on several nodes give a client the same endpoint.
func hashed(s *status.Service) bool {
	return slices.ContainsFunc(s.Virtuals, func(v status.Virtual) bool { return v.Scheduler == "mh" })
}

// hasSeries reports whether a service has its own series. One that is left out has none, since another
// service may have its name, and neither has one whose type has nothing to serve.
func hasSeries(s *status.Service) bool {
	return s.State != status.LeftOut && s.State != status.NotServed
}

func (s statusCollector) endpointSeries(out output) {
	left := MaxEndpoints
	for i := range s.status.Services {
		svc := &s.status.Services[i]
		if !hasSeries(svc) || s.endpoints != "*" && !sources.SameName(s.endpoints, svc.Name) {
			continue
		}
		for _, e := range svc.Endpoints {
			if left == 0 {
				return
			}
			left--
			labels := of(svc.Name, e.Port, e.Protocol, e.Address.String())
			if s.status.NewOnly && e.Traffic != nil {
				out.counter(endpointConnections, e.Traffic.Connections, labels...)
			}
			if !s.status.Uncounted {
				out.gauge(endpointActive, float64(e.Active), labels...)
				out.gauge(endpointInactive, float64(e.Inactive), labels...)
			}
			out.gauge(endpointWeight, float64(e.Weight), labels...)
		}
	}
}

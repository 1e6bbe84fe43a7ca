package metrics

import (
	"github.com/svcproxy/svcproxy/proxy/status"
)

// MaxServices and MaxEndpoints bound how many of each have series of their own.
const (
	MaxServices  = 10_000
	MaxEndpoints = 50_000
)

// The metrics of each service, and of each of its endpoints. The label is not called service: a scraper
// that finds its targets in Kubernetes gives them a label of that name.
var (
	backends    = desc("service_backends", "Endpoints of a service that get new connections, each once for each port.", "name")
	active      = desc("service_active_connections", "Established connections to a service.", "name")
	connections = desc("service_connections_total", "Connections to a service.", "name")
	packets     = desc("service_packets_total", "Packets to a service (in) and from it (out).", "name", "direction")
	bytes       = desc("service_bytes_total", "Bytes of packets to a service (in) and from it (out).", "name", "direction")
	unlisted    = desc("services_unlisted", "Services that have no series of their own, since there are too many.")

	endpointActive   = desc("endpoint_active_connections", "Established connections to a service's endpoint.", "name", "port", "protocol", "endpoint")
	endpointInactive = desc("endpoint_inactive_connections", "Connections to a service's endpoint that are ending, or without states, as UDP's.", "name", "port", "protocol", "endpoint")
	endpointWeight   = desc("endpoint_weight", "Weight of a service's endpoint; 0 gets no new connections.", "name", "port", "protocol", "endpoint")
)

func (s standing) services(t teller) {
	listed := s.status.Services
	if len(listed) > MaxServices {
		listed = listed[:MaxServices]
	}
	t.gauge(unlisted, float64(len(s.status.Services)-len(listed)))
	for i := range listed {
		svc := &listed[i]
		if !hasSeries(svc) {
			continue
		}
		t.gauge(backends, float64(svc.Backends.Serving), svc.Name)
		t.gauge(active, float64(svc.Active), svc.Name)
		t.counter(connections, s.traffic[i].Connections, svc.Name)
		t.counter(packets, s.traffic[i].InPackets, svc.Name, "in")
		t.counter(packets, s.traffic[i].OutPackets, svc.Name, "out")
		t.counter(bytes, s.traffic[i].InBytes, svc.Name, "in")
		t.counter(bytes, s.traffic[i].OutBytes, svc.Name, "out")
	}
	if s.endpoints != "" {
		s.tellEndpoints(t)
	}
}

// hasSeries says whether a service has series of its own: not when another one has its name or addresses
// instead, and not when its type has nothing to be served.
func hasSeries(s *status.Service) bool {
	return s.State != status.LeftOut && s.State != status.NotServed
}

func (s standing) tellEndpoints(t teller) {
	left := MaxEndpoints
	for i := range s.status.Services {
		svc := &s.status.Services[i]
		if !hasSeries(svc) || s.endpoints != "*" && s.endpoints != svc.Name {
			continue
		}
		for _, e := range svc.Endpoints {
			if left == 0 {
				return
			}
			left--
			labels := []string{svc.Name, e.Port, e.Protocol, e.Address.String()}
			t.gauge(endpointActive, float64(e.Active), labels...)
			t.gauge(endpointInactive, float64(e.Inactive), labels...)
			t.gauge(endpointWeight, float64(e.Weight), labels...)
		}
	}
}

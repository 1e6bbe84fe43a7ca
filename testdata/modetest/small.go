package modetest

import (
	"fmt"
	"net/netip"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/sources"
)

// SmallTable draws enough services that a change of one of them is patched. Their
// endpoints are often the same.
func SmallTable(t *rapid.T) sources.Table {
	var all []sources.Service
	for i := range 16 {
		s := sources.Service{
			Namespace: "default", Name: fmt.Sprintf("s%02d", i), AffinityTimeout: sources.DefaultAffinityTimeout,
			Type:                  rapid.SampledFrom([]sources.Type{sources.ClusterIP, sources.NodePort, sources.LoadBalancer}).Draw(t, "type"),
			InternalTrafficPolicy: rapid.SampledFrom([]sources.TrafficPolicy{sources.Cluster, sources.Local}).Draw(t, "internal"),
			ExternalTrafficPolicy: rapid.SampledFrom([]sources.TrafficPolicy{sources.Cluster, sources.Local}).Draw(t, "external"),
			Ports: []sources.Port{
				{Name: "a", Protocol: sources.TCP, Port: 80, TargetPort: 8080},
				{Name: "b", Protocol: sources.UDP, Port: 53, TargetPort: 53},
			},
			Endpoints: SmallEndpoints(t),
		}
		if i%4 == 0 {
			s.Ports = s.Ports[1:] // it keeps its port, so a default method applies
		}
		if s.Type != sources.ClusterIP {
			s.Ports[0].NodePort = uint16(30000 + i)
		}
		if s.Type != sources.NodePort || rapid.Bool().Draw(t, "cluster IP") {
			s.ClusterIPs = []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, byte(i)})}
		}
		if s.Type == sources.LoadBalancer {
			s.LoadBalancerIPs = []sources.VIP{{Addr: netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, 9, 15: byte(i % 3)})}}
			s.Ports[0].Port = uint16(80 + i)
		}
		all = append(all, s)
	}
	return sources.Table{Services: sources.ServicesOf(all...)}
}

func SmallEndpoints(t *rapid.T) []sources.Endpoint {
	var endpoints []sources.Endpoint
	for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 0, 4, rapid.ID[int]).Draw(t, "endpoints") {
		a := netip.AddrFrom4([4]byte{172, 16, 0, byte(i)})
		if i > 6 {
			a = netip.AddrFrom16([16]byte{0xfd, 15: byte(i)})
		}
		moved := uint16(rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "moved"))
		endpoints = append(endpoints, sources.Endpoint{
			Addr: a, NodeName: rapid.SampledFrom([]string{"", "n1", "n2"}).Draw(t, "node"), Weight: 1,
			Cut:            rapid.IntRange(0, 4).Draw(t, "cut") == 0,
			MaxConnections: rapid.SampledFrom([]uint32{0, 0, 0, 100}).Draw(t, "limit"),
			Ready:          rapid.Bool().Draw(t, "ready"), Serving: true, Terminating: true,
			Ports: []sources.EndpointPort{{Name: "a", Protocol: sources.TCP, Port: 8080}, {Name: "b", Protocol: sources.UDP, Port: 53 + moved}},
		})
	}
	return endpoints
}

package modetest

import (
	"fmt"
	"net/netip"

	"github.com/svcproxy/svcproxy/sources"
)

// Big returns a table of n services with m endpoints each.
func Big(n, m int) sources.Table {
	all := make([]sources.Service, 0, n)
	for i := range n {
		s := sources.Service{
			Namespace: "default", Name: fmt.Sprintf("s%05d", i), Type: sources.ClusterIP,
			ClusterIPs:            []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})},
			Ports:                 []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 8080}},
			ExternalTrafficPolicy: sources.Cluster, InternalTrafficPolicy: sources.Cluster,
			AffinityTimeout: sources.DefaultAffinityTimeout,
		}
		for j := range m {
			s.Endpoints = append(s.Endpoints, sources.Endpoint{
				Addr:     netip.AddrFrom4([4]byte{172, 16 + byte(i>>12), byte(i >> 4), byte(i)<<4 | byte(j)}),
				Ports:    []sources.EndpointPort{{Protocol: sources.TCP, Port: 8080}},
				NodeName: fmt.Sprintf("n%d", j), Weight: 1, Ready: true, Serving: true,
			})
		}
		all = append(all, s)
	}
	return sources.Table{Services: sources.ServicesOf(all...)}
}

package ipvs_test

import (
	"fmt"
	"net/netip"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/sources"
)

// The virtual server of a service, and the address to bind for it.
func ExampleState() {
	table := sources.Table{Services: sources.ServicesOf(sources.Service{
		Namespace: "default", Name: "web", Type: sources.ClusterIP,
		ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.20")},
		Ports:      []sources.Port{{Protocol: sources.TCP, Port: 80}},
		Endpoints: []sources.Endpoint{{
			Addr: netip.MustParseAddr("10.2.1.10"), Weight: 1, Ready: true,
			Ports: []sources.EndpointPort{{Protocol: sources.TCP, Port: 8080}},
		}},
	})}
	f := frontend.List(table, kernel.Node{Name: "n1"}, frontend.Config{})
	s := ipvs.State(f, mode.Config{Names: kernel.DefaultNames, MasqueradeBit: 14})
	fmt.Print(kernel.State{Virtuals: s.Virtuals, Reals: s.Reals, Addrs: s.Addrs})
	// Output:
	// addr add 10.96.0.20/32 dev kube-ipvs0
	// -A -t 10.96.0.20:80 -s rr
	// -a -t 10.96.0.20:80 -r 10.2.1.10:8080 -m -w 1
}

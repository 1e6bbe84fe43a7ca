package frontend_test

import (
	"fmt"
	"net/netip"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// A service with two endpoints, of which one is not ready.
func ExampleList() {
	ports := []sources.EndpointPort{{Protocol: sources.TCP, Port: 8080}}
	table := sources.Table{Services: sources.ServicesOf(sources.Service{
		Namespace: "default", Name: "web", Type: sources.ClusterIP,
		ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.20")},
		Ports:      []sources.Port{{Protocol: sources.TCP, Port: 80}},
		Endpoints: []sources.Endpoint{
			{Addr: netip.MustParseAddr("10.2.1.10"), Ports: ports, Weight: 1, Ready: true},
			{Addr: netip.MustParseAddr("10.2.1.11"), Ports: ports, Weight: 1},
		},
	})}
	f := frontend.List(table, kernel.Node{Name: "n1"}, frontend.Config{})
	for i := range f.Fronts {
		x := &f.Fronts[i]
		fmt.Println(x.Key.AddrPort(), x.Key.Proto, f.Service(x).DisplayName(), f.Scheduler(x))
		for _, b := range f.Backends(x) {
			fmt.Println("  to", f.Addr(int(x.Service), b), "weight", f.Weight(int(x.Service), b))
		}
	}
	for _, t := range f.Targets(0) {
		if t.Reason != frontend.Used {
			fmt.Println(t.Addr, "is", t.Reason)
		}
	}
	// Output:
	// 10.96.0.20:80 tcp web rr
	//   to 10.2.1.10:8080 weight 1
	// 10.2.1.11:8080 is not ready
}

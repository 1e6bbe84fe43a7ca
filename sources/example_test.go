package sources_test

import (
	"fmt"
	"net/netip"

	"github.com/svcproxy/svcproxy/sources"
)

// web is a service at 10.96.0.1:80 that a file has.
func web(file, name string, endpoint string) sources.Table {
	return sources.Table{Services: sources.ServicesOf(sources.Service{
		Namespace: sources.DefaultNamespace, Name: name, Type: sources.ClusterIP,
		ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")},
		Ports:      []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 8080}},
		Endpoints:  []sources.Endpoint{{Addr: netip.MustParseAddr(endpoint), Weight: 1, Ready: true}},
		Origin:     sources.Origin{Source: "file", File: file, Line: 1},
	})}
}

// Two files ask for the same address. The first one gets it.
func ExampleMerge() {
	table, problems := sources.Merge(sources.HostFacts{}, web("a.toml", "web", "10.2.0.1"), web("b.toml", "shop", "10.2.0.2"))
	for i := range table.Services.Len() {
		s := table.Services.At(i)
		for a := range s.Addresses {
			fmt.Println(s.Name, a.Claim(), "withheld:", s.Withholds(a))
		}
	}
	for _, p := range problems {
		fmt.Println(p)
	}
	// Output:
	// shop 10.96.0.1:80/TCP withheld: true
	// web 10.96.0.1:80/TCP withheld: false
	// b.toml:1: shop: left out: 10.96.0.1:80/TCP is taken by web (a.toml:1)
}

// A Merger says what differs from the last table.
func ExampleMerger() {
	var m sources.Merger
	for _, endpoint := range []string{"10.2.0.1", "10.2.0.2", "10.2.0.2"} {
		merged := m.Merge(sources.HostFacts{}, nil, web("a.toml", "web", endpoint))
		fmt.Print(len(merged.Delta.Changes), " changes")
		for _, c := range merged.Delta.Changes {
			fmt.Printf(", %s: service %t, endpoints %t", c.FullName(), c.Service, c.Endpoints)
		}
		fmt.Println()
	}
	// Output:
	// 1 changes, default/web: service true, endpoints true
	// 1 changes, default/web: service false, endpoints true
	// 0 changes
}

package link_test

import (
	"fmt"
	"log"
	"net/netip"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/link"
)

// Bind two VIPs to a new device. Both addresses go in one send.
func ExampleLinks_Apply() {
	links, err := link.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer links.Close()
	ops := []kernel.Op{
		{Verb: kernel.Add, Object: kernel.Link{Name: "kube-ipvs0", Type: "dummy"}},
		{Verb: kernel.Add, Object: kernel.Addr{Addr: netip.MustParseAddr("10.96.0.10"), Link: "kube-ipvs0"}},
		{Verb: kernel.Add, Object: kernel.Addr{Addr: netip.MustParseAddr("fd00:96::10"), Link: "kube-ipvs0"}},
	}
	for i, err := range links.Apply(ops) {
		if err != nil {
			fmt.Printf("%s: %v\n", ops[i], err)
		}
	}
}

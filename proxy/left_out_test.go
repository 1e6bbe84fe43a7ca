package proxy_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/sources"
)

// What is left out of a service is said in a short line, and is not taken for one
// without backends.
func TestLeftOutIsSaid(t *testing.T) {
	vip := netip.MustParseAddr("192.0.2.80")
	s := sources.Service{
		Namespace: "default", Name: "web", Type: sources.LoadBalancer, LoadBalancerIPs: []sources.VIP{{Addr: vip}},
		Ports:    []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 80}},
		Withheld: []sources.Withheld{{Claim: sources.Claim{Addr: vip}, Why: "is the gateway"}},
	}
	now := &proxy.Snapshot{Table: sources.Table{Services: []sources.Service{s}}}
	now.Report.Problems = []sources.Problem{{Service: "default/web", Message: "left out: is the gateway"}}
	if got := now.WithoutBackends(); len(got) > 0 {
		t.Errorf("without backends: %v", got)
	}
	if got := proxy.LeftOut(now); got != "a part of default/web not served" {
		t.Error(got)
	}
	now.Table.Services[0].Withheld = nil
	if got := now.WithoutBackends(); !slices.Equal(got, []string{"default/web"}) {
		t.Errorf("without backends: %v", got)
	}
}

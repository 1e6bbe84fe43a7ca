package proxy_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// A service that is left out is reported in a short line. It does not count as one
// without backends.
func TestLeftOut(t *testing.T) {
	vip := netip.MustParseAddr("192.0.2.80")
	s := sources.Service{
		Namespace: "default", Name: "web", Type: sources.LoadBalancer, LoadBalancerIPs: []sources.VIP{{Addr: vip}},
		Ports:    []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 80}},
		Withheld: []sources.Withheld{{Claim: sources.Claim{Addr: vip}, Why: "is the gateway"}},
	}
	table := sources.Table{Services: sources.ServicesOf(s)}
	now := &proxy.Snapshot{Table: table, Frontends: frontend.List(table, kernel.Node{}, frontend.Config{})}
	now.Report.Problems = []sources.Problem{{Service: "web", Message: "left out: is the gateway"}}
	if got := now.WithoutBackends(); len(got) > 0 {
		t.Errorf("without backends: %v", got)
	}
	if got := proxy.LeftOut(now); got != "a part of web not served" {
		t.Error(got)
	}
	now.Table.Services.At(0).Withheld = nil
	if got := now.WithoutBackends(); !slices.Equal(got, []string{"web"}) {
		t.Errorf("without backends: %v", got)
	}
}

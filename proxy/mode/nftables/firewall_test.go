package nftables

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/packet"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode/iptables"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

// A policy DROP of FORWARD, as docker sets it, keeps clients away in this mode, and in mode iptables does not.
func TestPolicyOfForwardIsSaid(t *testing.T) {
	table := sources.Table{Services: sources.ServicesOf(sources.Service{
		Namespace: "default", Name: "web", Type: sources.ClusterIP, ExternalIPs: []netip.Addr{netip.MustParseAddr("10.96.0.20")},
		Ports:     []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 8080}},
		Endpoints: []sources.Endpoint{{Addr: netip.MustParseAddr("10.2.0.1"), Weight: 1, Ready: true, Serving: true, Ports: []sources.EndpointPort{{Protocol: sources.TCP, Port: 8080}}}},
	})}
	config, node := modetest.Defaults(), kernel.Node{Addrs: []kernel.NodeAddr{{Prefix: netip.MustParsePrefix("10.0.0.1/24"), Link: "eth0"}}}
	have := kernel.Observed{Names: config.Names, Node: node, Native: true, Firewall: []kernel.BaseChain{{
		Name: "iptables filter FORWARD", Hook: "forward", Family: kernel.IPv4, Policy: "drop"}}}
	fronts := frontend.List(table, node, config.Frontends)
	native, rules := State(fronts, config), iptables.State(fronts, config)
	if lines := packet.Blocked(&have, &native, fronts.Elsewhere()); len(lines) != 1 || !strings.Contains(lines[0], "FORWARD") {
		t.Errorf("mode nftables: %q", lines)
	}
	have.Native = false
	if lines := packet.Blocked(&have, &rules, fronts.Elsewhere()); len(lines) > 0 {
		t.Errorf("mode iptables: %q", lines)
	}
}

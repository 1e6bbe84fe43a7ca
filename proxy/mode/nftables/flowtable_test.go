package nftables

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/packet"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

func nodeWith(links ...string) (n kernel.Node) {
	for i, link := range links {
		n.Addrs = append(n.Addrs, kernel.NodeAddr{Prefix: netip.MustParsePrefix(fmt.Sprintf("192.0.2.%d/24", i+1)), Link: link})
	}
	return n
}

// Each family has a flowtable with the links that have addresses, and a rule that leads there. It follows links with one
// op, and is gone without the key.
func TestFlowtable(t *testing.T) {
	config, table := modetest.Defaults(), modetest.Big(3, 2)
	config.Flowtable = true
	before := stateOf(table, nodeWith("eth1", "lo", "eth0", "eth1"), config)
	for i, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		if got := before.Flowtables[i]; got != (kernel.Flowtable{Family: f, Links: "eth0,eth1"}) {
			t.Errorf("%s", got)
		}
	}
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		if rule := offload(config.Names, f); strings.Count(before.String(), rule) != 1 {
			t.Errorf("no rule %q in\n%s", rule, before)
		}
	}
	ops := func(want, have kernel.State) (lines []string) {
		for _, o := range plan.Once(want, kernel.Observed{State: have, Names: config.Names}).Ops {
			lines = append(lines, o.String())
		}
		return lines
	}
	after := stateOf(table, nodeWith("eth0", "wg0"), config)
	if got := ops(after, before); len(got) != 2 || !strings.Contains(got[0], "flowtable "+kernel.IPv4.String()+" eth0,wg0") {
		t.Errorf("another link:\n%s", strings.Join(got, "\n"))
	}
	if s := stateOf(table, nodeWith("lo", "-", "a,b"), config); len(s.Flowtables) > 0 || strings.Contains(s.String(), "FLOWOFFLOAD") {
		t.Errorf("without links:\n%s", s)
	}
	config.Flowtable = false
	off := stateOf(table, nodeWith("eth0", "eth1"), config)
	if got := ops(off, before); len(off.Flowtables) > 0 || len(got) != 4 || !strings.Contains(got[3], "flowtable") {
		t.Errorf("without the key:\n%s", strings.Join(got, "\n"))
	}
	config.Flowtable, config.Conntrack.TCPBeLiberal = true, true
	if s := stateOf(table, nodeWith("eth0"), config); !strings.Contains(s.String(), "FLOWOFFLOAD") {
		t.Errorf("with tcpBeLiberal:\n%s", s)
	}
	var many []string
	for i := range 200 {
		many = append(many, fmt.Sprintf("veth%d", i), fmt.Sprintf("wg%d", i))
	}
	if s := stateOf(table, nodeWith(many[:250]...), config); strings.Count(s.Flowtables[0].Links, ",") != 249 {
		t.Errorf("of 250 links: %s", s.Flowtables[0])
	}
}

// Only connections to VIPs that are served go to the flowtable, neither those to node ports nor what other programs
// translated.
func TestOffloaded(t *testing.T) {
	config, table := modetest.Defaults(), modetest.Big(3, 2)
	config.Flowtable = true
	table.Services.At(0).Ports[0].NodePort = 30080
	table.Services.At(0).Type = sources.NodePort
	node := nodeWith("eth0")
	node.Primary4 = node.Addrs[0].Prefix.Addr()
	s := stateOf(table, node, config)
	s.Chains = slices.Clone(s.Chains)
	i := slices.IndexFunc(s.Chains, func(c kernel.Chain) bool { return c.Family == kernel.IPv4 && c.Name == "PREROUTING" })
	s.Chains[i].Rules += "\n-p tcp -m tcp --dport 8080 -j DNAT --to-destination 172.17.0.2:80"
	vip := netip.AddrPortFrom(table.Services.At(0).ClusterIPs[0], table.Services.At(0).Ports[0].Port)
	for to, want := range map[string]bool{vip.String(): true, "192.0.2.1:30080": false, "192.0.2.1:8080": false} {
		p := packet.Packet{Proto: kernel.TCP, Src: netip.MustParseAddrPort("198.51.100.9:40000"), In: "eth0",
			Dst: netip.MustParseAddrPort(to), Established: true}
		v, err := packet.Trace(s, node, p)
		if err != nil {
			t.Errorf("%s: %s, %v\n%s", to, v, err, strings.Join(v.Steps, "\n"))
		}
		step := v.Steps[slices.IndexFunc(v.Steps, func(s string) bool { return strings.Contains(s, "FLOWOFFLOAD") })]
		if offloaded := !strings.Contains(step, ": no, "); offloaded != want {
			t.Errorf("%s: %s", to, step)
		}
	}
}

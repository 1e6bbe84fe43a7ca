package nftables

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
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
	if n := strings.Count(before.String(), offload); n != 2 {
		t.Errorf("%d rules of\n%s", n, before)
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
	if s := stateOf(table, nodeWith("lo"), config); len(s.Flowtables) > 0 || strings.Contains(s.String(), offload) {
		t.Errorf("without links:\n%s", s)
	}
	config.Flowtable = false
	off := stateOf(table, nodeWith("eth0", "eth1"), config)
	if got := ops(off, before); len(off.Flowtables) > 0 || len(got) != 4 || !strings.Contains(got[3], "flowtable") {
		t.Errorf("without the key:\n%s", strings.Join(got, "\n"))
	}
	config.Flowtable, config.Conntrack.TCPBeLiberal = true, true
	if s := stateOf(table, nodeWith("eth0"), config); !strings.Contains(s.String(), offload) {
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

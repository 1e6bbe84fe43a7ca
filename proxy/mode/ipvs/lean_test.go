package ipvs

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/packet"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

// TestLayoutsAgree checks that both layouts, and those for nftables, have the same verdict on every packet, for any
// table. There is one difference: nftables drops what the node itself must not send to a VIP before IPVS looks at it.
func TestLayoutsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, node, config := modetest.DrawTable(t), modetest.DrawNode(t), modetest.DrawConfig(t)
		modetest.Realistic(t, table, node)
		node.Primary6 = addr("2001:db8:1::1")
		node.Addrs = append(node.Addrs, kernel.NodeAddr{Prefix: netip.PrefixFrom(node.Primary6, 64), Link: "eth0"})
		config.VIPPing = rapid.Bool().Draw(t, "vipPing")
		f := frontend.List(table, node, config.Frontends)
		config.Lean = false
		full := State(f, config)
		for _, layout := range []struct{ lean, native bool }{{true, false}, {false, true}, {true, true}} {
			config.Lean, config.Native = layout.lean, layout.native
			other := State(f, config)
			for _, p := range modetest.PacketsAround(f) {
				want, err := packet.Trace(full, node, p)
				got, err2 := packet.Trace(other, node, p)
				if (err == nil) != (err2 == nil) {
					t.Fatalf("%s: %v, %+v: %v", p, err, layout, err2)
				}
				if layout.native && withheld(f, p) {
					if got.Fate != packet.Dropped {
						t.Fatalf("%s: %s, want it dropped\n%s", p, got, strings.Join(got.Steps, "\n"))
					}
					continue
				}
				if want.String() != got.String() {
					t.Fatalf("%s: %s, %+v: %s\n%s", p, want, layout, got, strings.Join(got.Steps, "\n"))
				}
			}
		}
	})
}

// withheld reports whether a packet is the node's own to a VIP whose source ranges do not have the node.
func withheld(f *frontend.Frontends, p packet.Packet) bool {
	return p.In == "" && !p.Src.IsValid() && slices.ContainsFunc(f.Fronts, func(x frontend.Front) bool {
		return x.Key.Proto == p.Proto && x.Key.AddrPort() == p.Dst && x.Traits.Has(frontend.Restricted) &&
			!x.Traits.Has(frontend.NodeAllowed)
	})
}

// visits is how many rules a packet is compared with, and how many of them look into a set.
type visits struct{ rules, sets int }

// TestRulesOnTheWay counts the visits of packets to a cluster IP. They do not depend on the number of services.
func TestRulesOnTheWay(t *testing.T) {
	for _, c := range []struct {
		name          string
		lean          bool
		nodeName      string // of all endpoints
		masqueradeAll bool
		first, later  visits
	}{
		{"endpoints elsewhere", false, "n0", false, visits{13, 5}, visits{7, 3}},
		{"endpoints elsewhere, lean", true, "n0", false, visits{6, 3}, visits{1, 0}},
		{"endpoints anywhere", false, "", false, visits{14, 6}, visits{7, 3}}, // these may be hairpins
		{"endpoints anywhere, lean", true, "", false, visits{8, 4}, visits{1, 0}},
		{"SNAT", false, "n0", true, visits{16, 5}, visits{7, 3}},
		{"SNAT, lean", true, "n0", true, visits{10, 3}, visits{1, 0}},
	} {
		for _, services := range []int{10, 5000} {
			table := modetest.Big(services, 1)
			for i := range table.Services.Len() {
				table.Services.At(i).Endpoints[0].NodeName = c.nodeName
			}
			config := modetest.Defaults()
			config.Lean, config.MasqueradeAll = c.lean, c.masqueradeAll
			node := kernel.Node{Name: "n1", Addrs: []kernel.NodeAddr{{Prefix: netip.MustParsePrefix("192.168.1.2/24"), Link: "eth0"}}}
			s := stateOf(table, node, config)
			p := packet.Packet{Proto: kernel.TCP, In: "eth0", Src: netip.MustParseAddrPort("192.0.2.9:40000"), Dst: s.Virtuals[0].Key.AddrPort()}
			for later, want := range map[bool]visits{false: c.first, true: c.later} {
				p.Established = later
				v, err := packet.Trace(s, node, p)
				if err != nil {
					t.Fatal(err)
				}
				if got := visited(v.Steps); got != want {
					t.Errorf("%d services, %s, later %t: %+v, want %+v\n%s", services, c.name, later, got, want, strings.Join(v.Steps, "\n"))
				}
			}
		}
	}
}

// visited counts the visits among a packet's steps.
func visited(steps []string) (n visits) {
	for _, step := range steps {
		table, _, _ := strings.Cut(step, " ")
		if !slices.Contains([]string{"nat", "filter"}, table) || strings.Contains(step, ": not asked") {
			continue
		}
		n.rules++
		n.sets += strings.Count(step, "--match-set")
	}
	return n
}

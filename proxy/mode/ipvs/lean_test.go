package ipvs

import (
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/trace"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode/modetest"
)

// TestLayoutsAgree checks that both layouts have the same verdict on every packet, for any table.
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
		config.Lean = true
		lean := State(f, config)
		for _, p := range packets(f) {
			want, err := trace.Trace(full, node, p)
			got, err2 := trace.Trace(lean, node, p)
			if (err == nil) != (err2 == nil) {
				t.Fatalf("%s: %v, lean: %v", p, err, err2)
			}
			if want.String() != got.String() {
				t.Fatalf("%s: %s, lean: %s\n%s", p, want, got, strings.Join(got.Steps, "\n"))
			}
		}
	})
}

// packets are packets to each front, to other ports of its address and to the node, from outside, from a workload
// and from the node, first and later ones.
func packets(f *frontend.Frontends) (all []trace.Packet) {
	for i := range f.Fronts {
		k := f.Fronts[i].Key
		vip := k.Addr.Addr()
		for _, port := range []uint16{k.Addr.Port(), 22} {
			to := netip.AddrPortFrom(vip, port)
			from := netip.AddrPortFrom(modetest.Outside(vip), 40000)
			for _, later := range []bool{false, true} {
				all = append(all,
					trace.Packet{Proto: k.Proto, Src: from, Dst: to, In: "eth0", Established: later},
					trace.Packet{Proto: k.Proto, Src: from, Dst: to, In: "veth1", Established: later},
					trace.Packet{Proto: k.Proto, Dst: to, Established: later},
					trace.Packet{Proto: k.Proto, Src: from, Dst: netip.AddrPortFrom(modetest.Outside(vip).Next(), port), In: "eth0", Established: later})
			}
		}
		all = append(all, trace.Packet{Echo: true, Src: netip.AddrPortFrom(modetest.Outside(vip), 0), Dst: netip.AddrPortFrom(vip, 0), In: "eth0"})
	}
	return all
}

// TestRulesOnTheWay counts the rules that a packet to a cluster IP is compared with, and those of them that look
// into a set. The numbers do not depend on the number of services.
func TestRulesOnTheWay(t *testing.T) {
	type count struct{ rules, sets int }
	node := kernel.Node{Name: "n1", Addrs: []kernel.NodeAddr{{Prefix: netip.MustParsePrefix("192.168.1.2/24"), Link: "eth0"}}}
	for _, services := range []int{10, 5000} {
		for _, c := range []struct {
			lean         bool
			first, later count
		}{
			{false, count{13, 5}, count{7, 3}},
			{true, count{9, 3}, count{2, 0}},
		} {
			config := modetest.Defaults()
			config.Lean = c.lean
			s := stateOf(modetest.Big(services, 1), node, config)
			p := trace.Packet{Proto: kernel.TCP, In: "eth0", Src: netip.MustParseAddrPort("192.0.2.9:40000"), Dst: s.Virtuals[0].Key.Addr}
			for _, later := range []bool{false, true} {
				p.Established = later
				v, err := trace.Trace(s, node, p)
				if err != nil {
					t.Fatal(err)
				}
				var got count
				for _, step := range v.Steps {
					if !strings.HasPrefix(step, "nat ") && !strings.HasPrefix(step, "filter ") || strings.Contains(step, ": not asked") {
						continue
					}
					got.rules++
					got.sets += strings.Count(step, "--match-set")
				}
				want := c.first
				if later {
					want = c.later
				}
				if got != want {
					t.Errorf("%d services, lean %t, later %t: %+v, want %+v\n%s", services, c.lean, later, got, want, strings.Join(v.Steps, "\n"))
				}
			}
		}
	}
}

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

// TestUntrackedAgrees checks that untracked services have the same verdict on every packet as tracked ones, for any
// table: also those of endpoints, which may be balanced to themselves. Then connection tracking sees both directions of
// a connection or none, and what is masqueraded is tracked.
func TestUntrackedAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, node, config := modetest.DrawTable(t), modetest.DrawNode(t), modetest.DrawConfig(t)
		modetest.Realistic(t, table, node)
		node.Primary4, node.Primary6 = addr("192.0.2.1"), addr("2001:db8:1::1")
		for _, a := range []netip.Addr{node.Primary4, node.Primary6} {
			node.Addrs = append(node.Addrs, kernel.NodeAddr{Prefix: netip.PrefixFrom(a, a.BitLen()), Link: "eth0"})
		}
		f := frontend.List(table, node, config.Frontends)
		config.Untracked = false
		tracked := State(f, config)
		config.Untracked = true
		s := State(f, config)
		for _, p := range append(packets(f), fromEndpoints(f)...) {
			want, err := trace.Trace(tracked, node, p)
			got, err2 := trace.Trace(s, node, p)
			if (err == nil) != (err2 == nil) {
				t.Fatalf("%s: %v, untracked: %v", p, err, err2)
			}
			if want.String() != got.String() {
				t.Fatalf("%s: %s, untracked: %s\n%s", p, want, got, strings.Join(got.Steps, "\n"))
			}
			if p.State == "" {
				checkReplies(t, s, node, p, got)
			}
		}
	})
}

// fromEndpoints are packets of each front's endpoints to the front.
func fromEndpoints(f *frontend.Frontends) (all []trace.Packet) {
	for i := range f.Fronts {
		x := &f.Fronts[i]
		for _, b := range f.Backends(x) {
			p := trace.Packet{Proto: x.Key.Proto, Dst: x.Key.AddrPort(), Src: netip.AddrPortFrom(f.Addr(int(x.Service), b).Addr(), 40000), In: "veth1"}
			later := p
			later.Established = true
			all = append(all, p, later)
		}
	}
	return all
}

// checkReplies checks the replies to a packet that came from outside: untracked if the packet was, and then accepted
// by KUBE-FORWARD.
func checkReplies(t *rapid.T, s kernel.State, node kernel.Node, p trace.Packet, v trace.Verdict) {
	for _, w := range v.Ways {
		if p.In == "" || w.Forward != kernel.Masquerade || w.Fate != trace.Balanced || node.Has(w.Real.Addr()) {
			continue
		}
		reply := trace.Packet{Proto: p.Proto, Src: w.Real, Dst: p.Src, In: "veth2", Established: true}
		if v.Untracked && w.Masquerade != trace.Kept && w.Masquerade != trace.AsBefore {
			t.Fatalf("%s: untracked and masqueraded\n%s", p, strings.Join(v.Steps, "\n"))
		}
		if w.Masquerade == trace.ByMark || w.Masquerade == trace.Hairpin {
			reply.Dst = netip.AddrPortFrom(node.Primary4, 40000)
			if p.Dst.Addr().Is6() {
				reply.Dst = netip.AddrPortFrom(node.Primary6, 40000)
			}
		} else if p.Established {
			continue // the first packet of the connection has told
		}
		got, err := trace.Trace(s, node, reply)
		if err != nil {
			t.Fatal(err)
		}
		steps := strings.Join(got.Steps, "\n")
		if got.Untracked != v.Untracked {
			t.Fatalf("%s: untracked %t, its reply %s: %t\n%s", p, v.Untracked, reply, got.Untracked, steps)
		}
		if got.Untracked && !strings.Contains(steps, "filter KUBE-FORWARD: -m conntrack --ctstate UNTRACKED -m set --match-set ") {
			t.Fatalf("%s is not accepted\n%s", reply, steps)
		}
	}
}

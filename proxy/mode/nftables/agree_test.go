package nftables

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/packet"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode/iptables"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

// TestModesAgree checks that this mode and mode iptables have the same verdict on every packet, for any table, but for
// the differences that the package comment lists: where a hash chooses, the endpoint is one of those that mode iptables may choose; shares
// are rounded to slots; a related connection counts as a new one; and more of the node's own packets are masqueraded if its workloads cannot be recognised.
func TestModesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, node, config := modetest.DrawTable(t), modetest.DrawNode(t), modetest.DrawConfig(t)
		modetest.Realistic(t, table, node)
		node.Primary6 = netip.MustParseAddr("2001:db8:1::1")
		node.Addrs = append(node.Addrs, kernel.NodeAddr{Prefix: netip.PrefixFrom(node.Primary6, 64), Link: "eth0"})
		config.VIPPing = rapid.Bool().Draw(t, "vipPing")
		f := frontend.List(table, node, config.Frontends)
		ours, theirs := State(f, config), iptables.State(f, config)
		for _, p := range modetest.PacketsAround(f) {
			if disputed(f, p) {
				continue
			}
			unknown := newWriter(f, &config, kernel.FamilyOf(p.Dst.Addr())).workloads == ""
			if p.State == "RELATED" && !p.Established || unknown && p.Src.Addr().IsLoopback() {
				continue
			}
			want, err := packet.Trace(theirs, node, p)
			got, err2 := packet.Trace(ours, node, p)
			if slices.ContainsFunc(want.Ways, func(w packet.Way) bool {
				_, found := f.Find(kernel.VirtualAt(w.Real, p.Proto))
				return found
			}) {
				continue // the filter of mode iptables takes an endpoint at a node port for the node port
			}
			if (err == nil) != (err2 == nil) {
				t.Fatalf("%s: %v, mode iptables: %v", p, err2, err)
			}
			if !agree(f, p, got, want) {
				t.Fatalf("%s: %s, mode iptables: %s\n%s\n\nmode iptables:\n%s", p, got, want,
					strings.Join(got.Steps, "\n"), strings.Join(want.Steps, "\n"))
			}
		}
	})
}

// disputed reports whether two service ports have a packet's port as node port, or one that and the other the address.
// There mode iptables goes on to the second one if the first has no endpoint for the packet.
func disputed(f *frontend.Frontends, p packet.Packet) bool {
	ports := map[[2]int]bool{}
	for _, x := range f.Fronts {
		if x.Key.Port == p.Dst.Port() && x.Key.Proto == p.Proto &&
			(x.Traits.Has(frontend.NodePort) || x.Key.Addr == p.Dst.Addr()) {
			ports[[2]int{int(x.Service), int(x.Port)}] = true
		}
	}
	return len(ports) > 1
}

func agree(f *frontend.Frontends, p packet.Packet, got, want packet.Verdict) bool {
	if at, found := f.Find(kernel.VirtualAt(p.Dst, p.Proto)); found && f.Fronts[at].Traits.Has(frontend.Restricted) &&
		got.Fate == packet.Dropped && want.Fate == packet.Rejected {
		return true // from outside of the ranges of a service without endpoints
	}
	if got.Fate != want.Fate || !alike(p, got.Masquerade, want.Masquerade) || len(got.Ways) > len(want.Ways) {
		return false
	}
	hashes := false
	if at, found := f.Find(got.Virtual); found {
		hashes = choiceOf(f, &f.Fronts[at]) != ""
	}
	if !hashes && len(got.Ways) != len(want.Ways) {
		return false
	}
	for _, w := range got.Ways {
		i := slices.IndexFunc(want.Ways, func(x packet.Way) bool { return x.Real == w.Real })
		if i < 0 {
			return false
		}
		x := want.Ways[i]
		if w.Fate != x.Fate || !alike(p, w.Masquerade, x.Masquerade) || !hashes && (w.Chance-x.Chance > 0.01 || x.Chance-w.Chance > 0.01) {
			return false
		}
	}
	return true
}

// alike reports whether a packet leaves with the same source. The node's own that is sent back to its address does in
// any case.
func alike(p packet.Packet, a, b packet.Masquerade) bool {
	return a == b || a == packet.Hairpin && (b == packet.ByMark || p.In == "")
}

// Only the clients of an endpoint move when it goes.
func TestHashedSlots(t *testing.T) {
	table := modetest.Big(1, 5)
	s := table.Services.At(0)
	s.Affinity = sources.AffinityClientIP
	config := modetest.Defaults()
	to := func(drop string, client netip.Addr) string {
		some := sources.Table{Services: sources.ServicesOf(*s)}
		x := some.Services.At(0)
		x.Endpoints = slices.DeleteFunc(slices.Clone(s.Endpoints), func(e sources.Endpoint) bool { return e.Addr.String() == drop })
		node := kernel.Node{Name: "n1", Primary4: netip.MustParseAddr("192.0.2.1")}
		state := stateOf(some, node, config)
		p := packet.Packet{Proto: kernel.TCP, Src: netip.AddrPortFrom(client, 40000), In: "eth0",
			Dst: netip.AddrPortFrom(s.ClusterIPs[0], s.Ports[0].Port)}
		v, err := packet.Trace(state, node, p)
		if err != nil || len(v.Ways) != 1 {
			t.Fatalf("%v: %v", v, err)
		}
		return v.Ways[0].Real.Addr().String()
	}
	gone := s.Endpoints[0].Addr.String()
	moved, clients, counts := 0, 0, map[string]int{}
	for client := netip.MustParseAddr("198.51.100.1"); clients < 200; client = client.Next() {
		before, after := to("", client), to(gone, client)
		counts[before]++
		if clients++; before != after && before != gone {
			moved++
		}
	}
	if moved > 0 || len(counts) != 5 {
		t.Errorf("%d of %d clients of other endpoints moved, %v", moved, clients, counts)
	}
}

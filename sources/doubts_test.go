package sources_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/sources"
)

// A table is judged again if the facts change, and a service if it changes or is on another line.
func TestDoubtsFollowFacts(t *testing.T) {
	weighted := func(line int, weight uint32) sources.Table {
		return sources.Table{Services: sources.ServicesOf(sources.Service{
			Namespace: "default", Name: "web", Type: sources.ClusterIP, ClusterIPs: []netip.Addr{addr(1)},
			Ports:     []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 80}},
			Endpoints: []sources.Endpoint{{Addr: addr(8), Weight: 1}, {Addr: addr(9), Weight: weight}},
			Origin:    sources.Origin{Source: "file", File: "a.toml", Line: line},
		})}
	}
	const doubt = `a.toml:%d: web: scheduler "rr" ignores weights, and they differ: "wrr" would heed them`
	rr, wrr := sources.HostFacts{Scheduler: "rr"}, sources.HostFacts{Scheduler: "wrr"}
	var m sources.Merger
	for i, step := range []struct {
		host  sources.HostFacts
		table sources.Table
		want  string
	}{
		{wrr, weighted(1, 2), ""},
		{rr, weighted(1, 2), fmt.Sprintf(doubt, 1)},
		{rr, weighted(2, 2), fmt.Sprintf(doubt, 2)},
		{rr, weighted(2, 1), ""},
		{rr, weighted(2, 3), fmt.Sprintf(doubt, 2)},
		{wrr, weighted(2, 3), ""},
		{rr, sources.Table{}, ""},
	} {
		got := ""
		for _, p := range m.Merge(step.host, nil, step.table).Doubts {
			got += p.Error()
		}
		if got != step.want {
			t.Errorf("step %d: got %q, want %q", i, got, step.want)
		}
	}
}

// Schedulers that hash have tables of a fixed size.
func TestDoubtsOfManyEndpoints(t *testing.T) {
	for _, row := range []struct {
		scheduler string
		endpoints int
		want      string
	}{
		{"sh", 256, "[]"},
		{"sh", 257, `[a.toml:1: web: scheduler "sh" has a table of 256 entries with most kernels, so some of the 257 endpoints get no connection: "wrr" or "lc" would use all]`},
		{"mh", 4093, "[]"},
		{"mh", 4094, `[a.toml:1: web: scheduler "mh" has a table of 4093 entries with most kernels, so some of the 4094 endpoints get no connection: "wrr" or "lc" would use all]`},
		{"rr", 5000, "[]"},
	} {
		s := sources.Service{
			Namespace: "default", Name: "web", Type: sources.ClusterIP, ClusterIPs: []netip.Addr{addr(1)}, Scheduler: row.scheduler,
			Ports:  []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 80}},
			Origin: sources.Origin{Source: "file", File: "a.toml", Line: 1},
		}
		for i := range row.endpoints {
			s.Endpoints = append(s.Endpoints, sources.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 2, byte(i >> 8), byte(i)}), Weight: 1})
		}
		if got := fmt.Sprint(sources.Doubts(sources.HostFacts{}, sources.Table{Services: sources.ServicesOf(s)})); got != row.want {
			t.Errorf("%s with %d endpoints: %s", row.scheduler, row.endpoints, got)
		}
	}
}

// A Merger, which checks only what changed, returns what Doubts does for the merged table.
func TestDoubtsOfChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m sources.Merger
		now := tables("a").Draw(t, "table")
		for range rapid.IntRange(1, 5).Draw(t, "rounds") {
			host := sources.HostFacts{ClusterIPsKeepClients: rapid.Bool().Draw(t, "unmasqueraded"), Scheduler: rapid.SampledFrom([]string{"wrr", "wrr", "rr"}).Draw(t, "scheduler"),
				Forward: rapid.SampledFrom([]sources.Forward{"", sources.GUE}).Draw(t, "forward"), MTU: rapid.SampledFrom([]int{0, 9000}).Draw(t, "mtu")}
			now = otherEndpoints(t, now)
			now.Services = sources.ServicesOf(now.Services.Slice()...)
			most := rapid.IntRange(0, 1).Draw(t, "most lines")
			for i := range now.Services.Len() {
				s := now.Services.At(i)
				s.Origin.Line += rapid.IntRange(0, most).Draw(t, "lines")
				s.Endpoints = slices.Clone(s.Endpoints)
				for j := range s.Endpoints {
					s.Endpoints[j].Weight = uint32(j)
				}
			}
			merged := m.Merge(host, nil, now)
			if got, want := fmt.Sprint(merged.Doubts), fmt.Sprint(sources.Doubts(host, merged.Table)); got != want {
				t.Fatalf("got  %s\nwant %s", got, want)
			}
		}
	})
}

func TestManyDoubts(t *testing.T) {
	table := many(120)
	for i := range table.Services.Len() {
		table.Services.At(i).Origin = sources.Origin{Source: "file", File: "a.toml", Line: i + 1}
		table.Services.At(i).Type, table.Services.At(i).ExternalIPs = sources.NodePort, nil
	}
	doubts := sources.Doubts(sources.HostFacts{}, table)
	if len(doubts) != 101 || doubts[100].Message != "more than 100 problems: correct these first" {
		t.Errorf("%d doubts, the last %v", len(doubts), doubts[len(doubts)-1])
	}
}

// What a mode that can only masquerade does not put into tunnels needs no larger MTU.
func TestTunnelsOfMasqueradingModes(t *testing.T) {
	table := sources.Table{Services: sources.ServicesOf(sources.Service{
		Namespace: "default", Name: "web", Type: sources.ClusterIP, ClusterIPs: []netip.Addr{addr(1)}, Forward: sources.IPIP,
		Ports:     []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 80}},
		Endpoints: []sources.Endpoint{{Addr: addr(8), Weight: 1}},
		Origin:    sources.Origin{Source: "file", File: "a.toml", Line: 1},
	})}
	for mode, doubted := range map[string]bool{"": true, sources.ModeIPVS: true, sources.ModeIPTables: false, sources.ModeUserspace: false} {
		if doubts := sources.Doubts(sources.HostFacts{Mode: mode}, table); (len(doubts) > 0) != doubted {
			t.Errorf("mode %q: %v", mode, doubts)
		}
	}
}

// Where keepalived moves VIPs, one on the node's link is as it should be on the master. One that counts nowhere is named.
func TestMovedVIPs(t *testing.T) {
	vip := netip.MustParseAddr("192.0.2.80")
	no := false
	for _, c := range []struct {
		moved    bool
		announce *bool
		want     string
	}{
		{false, nil, "[services.toml: web: VIP 192.0.2.80 is this host's own address: it is served, and not bound while the host has it]"},
		{true, nil, "[]"},
		{true, &no, "[services.toml: web: VIP 192.0.2.80 does not count for keepalived (announce = false): it stays here if this node cannot " +
			"serve it services.toml: web: VIP 192.0.2.80 is this host's own address: it is served, and not bound while the " +
			"host has it]"},
	} {
		s := sources.Service{
			Namespace: "default", Name: "web", Type: sources.ClusterIP, ClusterIPs: []netip.Addr{vip}, Announce: c.announce,
			Origin: sources.Origin{Source: sources.Files, File: "services.toml"},
		}
		host := sources.HostFacts{Addrs: []netip.Addr{vip}, Moved: c.moved}
		if got := fmt.Sprint(sources.Doubts(host, sources.Table{Services: sources.ServicesOf(s)})); got != c.want {
			t.Errorf("moved %t: %s\nwant %s", c.moved, got, c.want)
		}
	}
}

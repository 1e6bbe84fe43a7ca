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
		return sources.Table{Services: []sources.Service{{
			Namespace: "default", Name: "web", Type: sources.ClusterIP, ClusterIPs: []netip.Addr{addr(1)},
			Ports:     []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 80}},
			Endpoints: []sources.Endpoint{{Addr: addr(8), Weight: 1}, {Addr: addr(9), Weight: weight}},
			Origin:    sources.Origin{Source: "file", File: "a.toml", Line: line},
		}}}
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
		for _, p := range m.Merge(step.host, false, step.table).Doubts {
			got += p.Error()
		}
		if got != step.want {
			t.Errorf("step %d: got %q, want %q", i, got, step.want)
		}
	}
}

// A Merger, which checks only what changed, returns what Doubts does for the merged table.
func TestDoubtsOfChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m sources.Merger
		now := tables("a").Draw(t, "table")
		for range rapid.IntRange(1, 5).Draw(t, "rounds") {
			host := sources.HostFacts{Unmasqueraded: rapid.Bool().Draw(t, "unmasqueraded"), Scheduler: rapid.SampledFrom([]string{"rr", "wrr"}).Draw(t, "scheduler"),
				Forward: rapid.SampledFrom([]sources.Forward{"", sources.GUE}).Draw(t, "forward"), MTU: rapid.SampledFrom([]int{0, 9000}).Draw(t, "mtu")}
			now = otherEndpoints(t, now)
			now.Services = slices.Clone(now.Services)
			for i := range now.Services {
				s := &now.Services[i]
				s.Origin.Line += rapid.IntRange(0, 1).Draw(t, "lines")
				s.Endpoints = slices.Clone(s.Endpoints)
				for j := range s.Endpoints {
					s.Endpoints[j].Weight = uint32(j)
				}
			}
			merged := m.Merge(host, false, now)
			if got, want := fmt.Sprint(merged.Doubts), fmt.Sprint(sources.Doubts(host, merged.Table)); got != want {
				t.Fatalf("got  %s\nwant %s", got, want)
			}
		}
	})
}

func TestManyDoubts(t *testing.T) {
	table := many(120)
	for i := range table.Services {
		table.Services[i].Origin = sources.Origin{Source: "file", File: "a.toml", Line: i + 1}
		table.Services[i].Type, table.Services[i].ExternalIPs = sources.NodePort, nil
	}
	doubts := sources.Doubts(sources.HostFacts{}, table)
	if len(doubts) != 101 || doubts[100].Message != "more than 100 problems: mend these first" {
		t.Errorf("%d doubts, the last %v", len(doubts), doubts[len(doubts)-1])
	}
}

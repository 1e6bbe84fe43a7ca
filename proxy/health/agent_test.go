package health

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// TestTwoTargetsOfAnAgent: of what two targets of one agent have heard, what says more is kept, whatever their order. What was
// kept before counts only for agents without a target.
func TestTwoTargetsOfAnAgent(t *testing.T) {
	table := readTable(t, "service a check=agent timeout=1s\nport http TCP 80\nendpoint 10.2.0.1 http=8080\n"+
		"service b check=agent timeout=2s\nport http TCP 80\nendpoint 10.2.0.1 http=8080\n")
	targets := Targets(table)
	if len(targets) != 2 {
		t.Fatalf("%d targets", len(targets))
	}
	agent, _ := agentOf(targets[0].Key)
	gone := Agent{netip.MustParseAddrPort("10.2.0.9:8080"), ""}
	before := Agents{agent: {Ask: AskMaint}, gone: {Ask: AskDrain}}
	drain, maint, down := Said{Ask: AskDrain}, Said{Ask: AskMaint, Percent: 30, HasPercent: true}, Said{Down: "down"}
	ten, thirty := Said{Percent: 10, HasPercent: true}, Said{Percent: 30, HasPercent: true}
	for _, c := range []struct{ one, other, want Said }{
		{Said{}, Said{}, Said{}},
		{drain, Said{}, drain},
		{drain, maint, maint},
		{drain, down, drain},
		{down, ten, down},
		{thirty, ten, ten},
		{thirty, Said{}, thirty},
	} {
		for range 20 {
			for i, said := range [][2]Said{{c.one, c.other}, {c.other, c.one}} {
				b := new(Board)
				b.SetTargets(targets, nil, time.Unix(1000, 0))
				b.targets[targets[0].Key].Said, b.targets[targets[1].Key].Said = said[0], said[1]
				want := Agents{gone: {Ask: AskDrain}}
				if c.want != (Said{}) {
					want[agent] = c.want
				}
				if got := b.Agents(before); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("%v, order %d: %v, want %v", c, i, got, want)
				}
			}
		}
	}
}

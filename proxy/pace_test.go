package proxy

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

// three returns three different shards.
func three() []plan.Shard {
	s := kernel.State{Sets: []kernel.Set{{Name: "A"}, {Name: "B"}, {Name: "C"}}}
	var entries []kernel.Entry
	for _, set := range s.Sets {
		for i := range 50_000 {
			entries = append(entries, kernel.Entry{Set: set.Name, Port: uint16(i)})
		}
	}
	s.Entries = kernel.EntriesOf(entries)
	parts := plan.Shards(&s, 3)
	if len(parts) != 3 {
		panic(len(parts))
	}
	return parts
}

// Each line of a case is when a check is due, in seconds, and of which shard.
func TestChecks(t *testing.T) {
	parts := three()
	type step struct {
		says   string // "12 B": what is due and when
		become int    // how many parts there are from this check on, 0: as before
		differ bool
		asked  bool // before the check that says, a second after the last
		failed bool
		late   time.Duration
	}
	for _, c := range []struct {
		name   string
		minGap time.Duration
		steps  []step
	}{
		{"one part", 0, []step{{says: "0 all", become: 1}, {says: "30 all"}, {says: "60 all"}}},
		{"three in turn", 0, []step{{says: "0 all", become: 3}, {says: "10 A"}, {says: "20 B"}, {says: "30 C"}, {says: "40 A"}, {says: "50 B"}}},
		{"one late", 0, []step{{says: "0 all", become: 3}, {says: "13 A", late: 3 * time.Second}, {says: "20 B"}, {says: "60 C", late: 30 * time.Second}, {says: "70 A"}}},
		{"cut again at the end of a turn, after a check of everything", 0, []step{{says: "0 all", become: 3}, {says: "10 A", become: 2}, {says: "20 B"}, {says: "30 C"}, {says: "40 all"}, {says: "55 A"}}},
		{"grown out of one part", 0, []step{{says: "0 all", become: 1}, {says: "30 all", become: 3}, {says: "40 A"}}},
		{"drift in one part", 0, []step{{says: "0 all", become: 3}, {says: "10 A"}, {says: "20 B", differ: true}, {says: "50 all"}, {says: "60 A"}}},
		{"drift again and again", 0, []step{{says: "0 all", become: 3}, {says: "10 A", differ: true}, {says: "40 all", differ: true}, {says: "70 all", differ: true}, {says: "100 all"}, {says: "110 A"}}},
		{"asked", 0, []step{{says: "0 all", become: 3}, {says: "10 A"}, {says: "11 all", asked: true}, {says: "21 A"}}},
		{"failed", 0, []step{{says: "0 all", become: 3}, {says: "10 A", failed: true}, {says: "10.1 all"}, {says: "20.1 A"}}},
		{"room for two", 12 * time.Second, []step{{says: "0 all", become: 3}, {says: "15 A"}, {says: "30 B"}, {says: "45 A"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			began := time.Unix(1000, 0)
			p := pace{period: 30 * time.Second, minGap: c.minGap}
			now, n := began, 0
			for i, s := range c.steps {
				if s.asked {
					p.lastCheck = time.Time{}
					now = now.Add(time.Second)
				} else if due := p.due(); i > 0 {
					now = due.Add(s.late)
				}
				part, ok := p.check(now)
				what := "all"
				if j := slices.Index(parts, part); j >= 0 {
					what = string("ABC"[j])
				} else if !ok || part != plan.Everything {
					what = fmt.Sprint("nothing: ", part, ok)
				}
				if got := fmt.Sprintf("%g %s", now.Sub(began).Seconds(), what); got != s.says {
					t.Fatalf("step %d: %s, want %s", i, got, s.says)
				}
				if s.become > 0 {
					n = s.become
				}
				p.lastSync = now
				if s.failed {
					p.failed(now)
					continue
				}
				p.failures = 0
				p.checked(now, part == plan.Everything || s.differ, func(most int) []plan.Shard {
					if n = min(n, most); n == 1 {
						return []plan.Shard{plan.Everything}
					}
					return parts[:n]
				})
				if s.differ {
					p.checkWhole()
				}
			}
		})
	}
}

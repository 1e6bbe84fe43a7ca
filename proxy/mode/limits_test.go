package mode_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/mode/iptables"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/proxy/mode/nftables"
	"github.com/svcproxy/svcproxy/proxy/mode/userspace"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func limitedTable(list *sources.List) sources.Table {
	t := modetest.Big(20, 2)
	all := t.Services.Slice()
	all[3].Clients = &sources.Clients{Deny: prefixes("10.9.0.0/16"), DenyLists: []string{"bad"},
		Allow: prefixes("10.0.0.0/8"), AllowLists: []string{"good"}, Rate: sources.Rate{N: 5, Per: time.Second}, Burst: 9,
		Connections: 7, PerClient: true, Reject: true, Closed: true}
	all[4].Clients = &sources.Clients{DenyLists: []string{"bad"}, Rate: sources.Rate{N: 5, Per: time.Minute}, Connections: 4}
	t = sources.Table{Services: sources.ServicesOf(all...), Lists: sources.Lists{list, {Name: "good"}}}
	return t
}

// Limits come before anything leads to their services, are written once, and go whole: in each mode.
func TestLimits(t *testing.T) {
	for _, m := range []mode.Mode{new(ipvs.Mode), new(iptables.Mode), new(nftables.Mode), userspace.Mode{}} {
		t.Run(m.Name(), func(t *testing.T) {
			c := modetest.Defaults()
			k := fake.New(c.Names, kernel.Node{Name: "n1"}, kernel.State{})
			var limits mode.Limits
			sync := func(table sources.Table, want bool) kernel.Plan {
				t.Helper()
				f := frontend.List(table, kernel.Node{Name: "n1"}, c.Frontends)
				s := limits.Add(m.State(f, c), f, c.Names)
				before := s.String()
				if s.Sort(); s.String() != before {
					t.Fatal("the state is not sorted")
				}
				read, _ := k.Read(context.Background())
				p := plan.Once(s, read)
				if err := k.Apply(context.Background(), p); err != nil {
					t.Fatal(err)
				}
				read, _ = k.Read(context.Background())
				if again := plan.Once(s, read); !again.Empty() {
					t.Fatalf("a second plan:\n%s", again)
				}
				if got := strings.Contains(read.String(), "*limits"); got != want {
					t.Fatalf("limits: %t\n%s", got, read.String())
				}
				return p
			}
			p := sync(limitedTable(&sources.List{Name: "bad", Prefixes: prefixes("192.0.2.0/24", "2001:db8::/32")}), true)
			led, served := 0, false
			for _, o := range p.Ops {
				switch x := o.Object.(type) {
				case kernel.Entry:
					served = served || x.Set == c.Names.Set(kernel.IPv4, kernel.Frontends)
					if c.Names.InLimits(x) && served {
						t.Errorf("%s comes late", o)
					}
					if x.Goto != "" && c.Names.InLimits(x) {
						led++
					}
				case kernel.Virtual, kernel.Addr:
					served = true
				}
			}
			if led == 0 {
				t.Error("nothing leads to limits")
			}
			p = sync(limitedTable(&sources.List{Name: "bad", Prefixes: prefixes("192.0.2.0/25", "2001:db8::/32")}), true)
			if len(p.Ops) != 2 {
				t.Errorf("a changed network:\n%s", p)
			}
			sync(modetest.Big(20, 2), false)
		})
	}
}

// What depends on endpoints alone makes no entry again.
func TestLimitsAreKept(t *testing.T) {
	table := limitedTable(&sources.List{Name: "bad", Prefixes: prefixes("192.0.2.0/24")})
	var cache frontend.Cache
	var limits mode.Limits
	c := modetest.Defaults()
	list := func(was, is sources.Table) kernel.State {
		f := cache.List(sources.Merged{Table: is, Delta: sources.Compare(was, is)}, kernel.Node{Name: "n1"}, c.Frontends)
		return limits.Add(kernel.State{}, f, c.Names)
	}
	before := list(sources.Table{}, table)
	now := table
	now.Services = sources.ServicesOf(table.Services.Slice()...)
	now.Services.At(3).Endpoints = nil
	after := list(table, now)
	copied := 0
	after.Entries.Unshared(before.Entries, func(own, _ []kernel.Entry) { copied += len(own) })
	if copied > 0 || after.String() != before.String() {
		t.Errorf("%d entries are new", copied)
	}
}

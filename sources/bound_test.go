package sources_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/sources"
)

// sized returns a service of a file with so many ports and endpoints at one VIP.
func sized(name string, vip, ports, endpoints int) sources.Service {
	s := sources.Service{
		Namespace: "default", Name: name, Type: sources.ClusterIP,
		ExternalIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(vip / 250), byte(vip%250 + 1)})},
		Origin:      sources.Origin{Source: sources.Files, File: "/" + name + ".toml", Line: 1},
	}
	for p := range ports {
		s.Ports = append(s.Ports, sources.Port{Name: fmt.Sprint(p), Protocol: sources.TCP, Port: uint16(p + 1), TargetPort: uint16(p + 1)})
	}
	for e := range endpoints {
		s.Endpoints = append(s.Endpoints, sources.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 1, byte(e / 250), byte(e%250 + 1)})})
	}
	return s
}

// together joins services of several files.
func together(services ...sources.Service) sources.Table {
	t := sources.Table{Services: sources.ServicesOf(services...)}
	t.Sort()
	return t
}

func names(t sources.Table) (all []string) {
	for _, s := range t.Services.All() {
		all = append(all, s.Name)
	}
	return all
}

// Files that are good alone may come to too much together. Then what was served stays: a newcomer is left out, and so is a
// service that grew, whatever their names; also after a restart.
func TestNewcomersAndGrowthPushNobodyOut(t *testing.T) {
	var m sources.Merger
	merge := func(m *sources.Merger, table sources.Table, want ...string) {
		t.Helper()
		merged := m.Merge(sources.HostFacts{}, nil, table)
		if got := names(merged.Table); !slices.Equal(got, want) {
			t.Fatalf("served are %v, want %v: %v", got, want, merged.Problems)
		}
		if left := table.Services.Len() - len(want); len(merged.Problems) != left {
			t.Fatalf("%d are left out: %v", left, merged.Problems)
		}
	}
	web, large := sized("web", 1, 1, 10), sized("large", 2, 900, 1000)
	merge(&m, together(web, large), "large", "web")
	newcomer := sized("a", 3, 100, 1000)
	merge(&m, together(newcomer, web, large), "large", "web")
	before := m.Incumbents()

	restarted := sources.Merger{Before: before}
	merge(&restarted, together(newcomer, web, large), "large", "web")

	grown := sized("web", 1, 101, 1000)
	merge(&m, together(newcomer, grown, large), "a", "large") // it does not fit, and a does
	merge(&m, together(newcomer, grown, sized("large", 2, 1, 1)), "a", "large", "web")
}

// A service that is left out for want of room takes nothing from one that is served.
func TestNoRoomNoClaim(t *testing.T) {
	large, small := sized("a", 1, 900, 1000), sized("b", 1, 1, 1)
	filler := sized("c", 2, 400, 1000)
	merged, problems := sources.Merge(sources.HostFacts{}, together(large, small, filler))
	if got := names(merged); !slices.Equal(got, []string{"b", "c"}) || len(problems) != 1 {
		t.Errorf("served are %v: %v", got, problems)
	}
}

// A problem names the service, its file, its product, the sum, the limit, and what would be right.
func TestProblemOfTooMuchTogether(t *testing.T) {
	_, problems := sources.Merge(sources.HostFacts{}, together(sized("b", 1, 600, 1000), sized("c", 2, 700, 1000)))
	want := "/c.toml:1: c: left out: 1 VIP x 700 ports x 1000 endpoints are 700000 real servers, with those of other services 1300000, " +
		"and at most 1000000 are served: fwmark instead of addresses and ports serves any number of ports with one virtual server"
	if len(problems) != 1 || problems[0].Error() != want {
		t.Errorf("%v\nwant %s", problems, want)
	}
}

// An endpoint more is judged without a whole merge, and never makes the table too large.
func TestEndpointsAreBounded(t *testing.T) {
	var m sources.Merger
	table := func(endpoints int) sources.Table {
		return together(sized("a", 1, 500, endpoints), sized("b", 2, 500, 1000))
	}
	for _, c := range []struct{ endpoints, services int }{{999, 2}, {1000, 2}, {1001, 1}, {1000, 2}, {1001, 1}} {
		if got := m.Merge(sources.HostFacts{}, nil, table(c.endpoints)); got.Services.Len() != c.services {
			t.Errorf("with %d endpoints %d services are served: %v", c.endpoints, got.Services.Len(), got.Problems)
		}
	}
}

// What mode iptables has no room for is no error of the file: Merge leaves it out where that mode runs, and a check says so.
func TestRoomDependsOnTheMode(t *testing.T) {
	table := together(sized("a", 1, 100, 1), sized("b", 2, 1000, 101))
	if problems := sources.Validate(table); len(problems) > 0 {
		t.Fatal(problems)
	}
	iptables := sources.HostFacts{Mode: sources.ModeIPTables}
	for mode, want := range map[string][]string{sources.ModeIPTables: {"a"}, sources.ModeIPVS: {"a", "b"}, "": {"a", "b"}} {
		if merged, _ := sources.Merge(sources.HostFacts{Mode: mode}, table); !slices.Equal(names(merged), want) {
			t.Errorf("mode %q serves %v", mode, names(merged))
		}
	}
	doubts := sources.Doubts(iptables, table)
	if !slices.ContainsFunc(doubts, func(p sources.Problem) bool {
		return p.Service == "default/b" && strings.Contains(p.Message, "left out: 1 VIP x 1000 ports x 101 endpoints are 101000 real servers")
	}) {
		t.Errorf("%v", doubts)
	}
	var m sources.Merger
	m.Merge(sources.HostFacts{Mode: sources.ModeIPVS}, nil, table)
	if merged := m.Merge(iptables, nil, table); !slices.Equal(names(merged.Table), []string{"a"}) {
		t.Errorf("after a change of the mode %v are served", names(merged.Table))
	}
}

// Mode nftables has an entry for each slot of each front, many of them where a hash chooses, and few source ranges.
func TestRoomOfModeNFTables(t *testing.T) {
	sticky := sized("sticky", 1, 9000, 20)
	sticky.Affinity, sticky.AffinityTimeout = sources.AffinityClientIP, time.Hour
	plain := sized("plain", 2, 9000, 20)
	weighted := sized("weighted", 3, 9000, 60)
	for i := range weighted.Endpoints {
		weighted.Endpoints[i].Weight = uint32(1 + i)
	}
	one := sized("one", 4, 9000, 1)
	one.Affinity, one.AffinityTimeout = sources.AffinityClientIP, time.Hour
	ranged := sized("ranged", 5, 300, 1)
	ranged.Type, ranged.ExternalIPs = sources.LoadBalancer, nil
	ranged.LoadBalancerIPs = []sources.VIP{{Addr: netip.MustParseAddr("10.97.0.1")}}
	for i := range 100 {
		ranged.SourceRanges = append(ranged.SourceRanges, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 3, 0, byte(i)}), 32))
	}
	for _, c := range []struct {
		service         sources.Service
		scheduler, want string
	}{
		{sticky, "", "1 VIP x 9000 ports x 20 endpoints by a hash are 4608000 slots of mode nftables, and at most 2000000 are " +
			`served: without session affinity and schedulers "sh" and "mh" an endpoint takes one; mode ipvs needs none`},
		{plain, "", ""},
		{plain, "mh", "20 endpoints by a hash are 4608000 slots"},
		{weighted, "", "60 endpoints by weight are 2700000 slots of mode nftables, and at most 2000000 are served: equal weights"},
		{one, "mh", ""},
		{ranged, "", "1 VIP x 300 ports x 100 ranges are 30000 rules for source ranges, and at most 20000 are served"},
	} {
		table := together(c.service)
		if problems := sources.Validate(table); len(problems) > 0 {
			t.Errorf("%s is no error of the file: %v", c.service.Name, problems)
		}
		for _, mode := range sources.Modes() {
			merged, problems := sources.Merge(sources.HostFacts{Mode: mode, Scheduler: c.scheduler}, table)
			switch {
			case mode == sources.ModeIPTables:
			case mode != sources.ModeNFTables || c.want == "":
				if merged.Services.Len() != 1 {
					t.Errorf("mode %s leaves out %v", mode, problems)
				}
			case merged.Services.Len() != 0 || !strings.Contains(fmt.Sprint(problems), c.want):
				t.Errorf("%s with scheduler %q: %v\nwant %s", c.service.Name, c.scheduler, problems, c.want)
			}
		}
	}
}

// Each endpoint has 16 slots, whatever fronts there are, and no more where there are many.
func TestHashSlots(t *testing.T) {
	for _, c := range []struct{ endpoints, fronts, want int }{
		{0, 1, 0}, {1, 250_000, 1}, {2, 1, 128}, {8, 256, 128}, {8, 257, 128}, {2, 1000, 32}, {9, 1, 512}, {32, 1000, 512},
		{33, 1, 4096}, {33, 1000, 1024}, {257, 1, 32768}, {257, 1000, 8192}, {100_000, 10, 32768},
	} {
		if got := sources.HashSlots(c.endpoints, c.fronts); got != c.want {
			t.Errorf("%d endpoints at %d fronts: %d slots, want %d", c.endpoints, c.fronts, got, c.want)
		}
	}
}

// Services of an API server are left out alone, with a warning.
func TestTooMuchFromAnAPIServer(t *testing.T) {
	huge := sized("huge", 1, 1001, 1000)
	huge.Origin = sources.Origin{Source: sources.APIServer}
	web := sized("web", 2, 1, 1)
	web.Origin = huge.Origin
	merged, problems := sources.Merge(sources.HostFacts{}, sources.Table{}, together(huge, web))
	if !slices.Equal(names(merged), []string{"web"}) || len(problems) != 1 || problems[0].Service != "default/huge" {
		t.Errorf("%v: %v", names(merged), problems)
	}
	if _, problems, ok := sources.Prune(sized("ports", 3, 10_001, 1)); ok || len(problems) != 1 {
		t.Errorf("10001 ports: %v", problems)
	}
}

// A size is what the service's addresses and endpoints come to when they are written out.
func TestSizeIsWhatIsServed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, s := range tables("a").Draw(t, "table").Services.All() {
			s.Endpoints = slices.Clone(s.Endpoints)
			if rapid.Bool().Draw(t, "IPv6") {
				s.ExternalIPs = append(s.ExternalIPs, netip.MustParseAddr("fd00::1"))
				s.Endpoints = append(s.Endpoints, sources.Endpoint{Addr: netip.MustParseAddr("fd01::1")})
			}
			var want sources.Size
			for a := range s.Addresses {
				if a.Kind == sources.KindHealthCheck {
					continue
				}
				want.Virtuals++
				for _, e := range s.Endpoints {
					if !a.Addr.IsValid() || a.Addr.Is4() == e.Addr.Is4() {
						want.Reals++
					}
				}
			}
			got := sources.SizeOf(s)
			if got.Guards, got.Probes, got.Slots, got.HashSlots = 0, 0, 0, 0; got != want {
				t.Fatalf("%+v comes to %+v, not to %+v", s, want, got)
			}
		}
	})
}

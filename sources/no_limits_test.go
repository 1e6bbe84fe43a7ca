package sources_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/svcproxy/svcproxy/sources"
)

// What a node cannot refuse clients of is left out whole, and others are not, whenever that changes.
func TestNoLimits(t *testing.T) {
	service := func(name string, vip int) sources.Service {
		return sources.Service{Namespace: "default", Name: name, Type: sources.ClusterIP,
			ClusterIPs: []netip.Addr{addr(vip)}, Ports: []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 80}}}
	}
	limited, other := service("limited", 1), service("other", 3)
	limited.Clients = &sources.Clients{Deny: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	plain := service("limited", 1)
	var m sources.Merger
	for i, c := range []struct {
		why  string
		of   sources.Service
		want int
	}{{"", limited, 2}, {"no nftables", limited, 1}, {"no nftables", limited, 1}, {"no nftables", plain, 2},
		{"no nftables", limited, 1}, {"", limited, 2}} {
		host, table := sources.HostFacts{NoLimits: c.why}, sources.Table{Services: sources.ServicesOf(c.of, other)}
		alone, _ := sources.Merge(host, table)
		got, problems := split(m.Merge(host, nil, table))
		if got.Services.Len() != c.want || alone.Services.Len() != c.want || len(problems) != 2-c.want {
			t.Errorf("%d: %v, %v", i, got.Services.Slice(), problems)
			continue
		}
		if c.want == 1 {
			if text := "left out: allow, deny and limits need nftables: no nftables"; problems[0].Message != text {
				t.Errorf("%d: %v", i, problems)
			}
		}
	}
}

// A service that cannot be served takes no address and no name from one that can, in each of equal merges.
func TestNoLimitsTakesNothing(t *testing.T) {
	service := func(name, file string, vip int) sources.Service {
		return sources.Service{
			Namespace: "default", Name: name, Origin: sources.Origin{File: file, Line: 1},
			Type: sources.ClusterIP, ClusterIPs: []netip.Addr{addr(vip)},
			Ports: []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 80}},
		}
	}
	limited := service("web", "a", 1)
	limited.Clients = &sources.Clients{Connections: 1}
	for what, rival := range map[string]sources.Service{
		"an address": service("rival", "b", 1),
		"a name":     service("web", "b", 3),
	} {
		tables := []sources.Table{{Services: sources.ServicesOf(limited)}, {Services: sources.ServicesOf(rival)}}
		served := func(got sources.Table) (files string) {
			for _, s := range got.Services.All() {
				if len(s.Withheld) == 0 {
					files += s.Origin.File
				}
			}
			return files
		}
		var m sources.Merger
		for i, c := range []struct{ why, want string }{{"", "a"}, {"no nftables", "b"}, {"no nftables", "b"}, {"", "b"}} {
			host := sources.HostFacts{NoLimits: c.why}
			got, _ := split(m.Merge(host, nil, tables...))
			if served(got) != c.want {
				t.Errorf("%s, merge %d: %q is served, want %q", what, i, served(got), c.want)
			}
			alone, _ := sources.Merge(host, tables...)
			if want := map[bool]string{true: "a", false: "b"}[c.why == ""]; served(alone) != want {
				t.Errorf("%s, alone %d: %q is served, want %q", what, i, served(alone), want)
			}
		}
	}
}

// A service that is left out for want of nftables leaves its room to the others.
func TestNoLimitsTakesNoRoom(t *testing.T) {
	limited, other := sized("a", 1, 400, 1000), sized("b", 2, 900, 1000)
	limited.Clients = &sources.Clients{Connections: 1}
	for why, want := range map[string]string{"": "a", "no nftables": "b"} {
		merged, problems := sources.Merge(sources.HostFacts{NoLimits: why}, together(limited, other))
		if got := names(merged); !slices.Equal(got, []string{want}) || len(problems) != 1 {
			t.Errorf("%q: served are %v, want %s: %v", why, got, want, problems)
		}
	}
}

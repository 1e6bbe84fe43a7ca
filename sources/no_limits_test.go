package sources_test

import (
	"net/netip"
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

// A service that cannot be served takes no address from one that can.
func TestNoLimitsTakesNothing(t *testing.T) {
	service := func(name, file string) sources.Service {
		return sources.Service{Namespace: "default", Name: name, Origin: sources.Origin{File: file, Line: 1}, Type: sources.ClusterIP,
			ClusterIPs: []netip.Addr{addr(1)}, Ports: []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 80}}}
	}
	limited, rival := service("limited", "a"), service("rival", "b")
	limited.Clients = &sources.Clients{Connections: 1}
	tables := []sources.Table{{Services: sources.ServicesOf(limited)}, {Services: sources.ServicesOf(rival)}}
	for why, want := range map[string]string{"": "limited", "no nftables": "rival"} {
		got, _ := sources.Merge(sources.HostFacts{NoLimits: why}, tables...)
		for _, s := range got.Services.All() {
			if served := len(s.Withheld) == 0; served != (s.Name == want) {
				t.Errorf("%q: %v", why, got.Services.Slice())
			}
		}
	}
}

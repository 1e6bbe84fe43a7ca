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

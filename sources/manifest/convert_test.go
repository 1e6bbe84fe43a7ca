package manifest

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/svcproxy/svcproxy/sources"
)

// TestLocalWithoutExternalIPs: a service whose only external IP is left out keeps its cluster IP, although nothing is left
// that its policy Local is about. kube-proxy serves it, too.
func TestLocalWithoutExternalIPs(t *testing.T) {
	for ip, problems := range map[string]int{"2001:db8::1": 1, "10.96.0.20": 0, "127.0.0.1": 1} {
		o, bad := Decode("web.yaml", []byte(`
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: ClusterIP, clusterIP: 10.96.0.20, externalIPs: ["`+ip+`"], externalTrafficPolicy: Local, ports: [{port: 80}]}
`))
		if len(bad) > 0 {
			t.Fatal(bad)
		}
		s, all, ok := Convert(o.Services[0], nil, "n1")
		if !ok {
			t.Fatalf("external IP %s: %v", ip, all)
		}
		s, left, ok := sources.Prune(s)
		if !ok || !slices.Equal(s.ClusterIPs, []netip.Addr{netip.MustParseAddr("10.96.0.20")}) {
			t.Errorf("external IP %s: served %t, cluster IPs %v: %v", ip, ok, s.ClusterIPs, left)
		}
		if all = append(all, left...); len(all) != problems {
			t.Errorf("external IP %s: %v, want %d problems", ip, all, problems)
		}
	}
}

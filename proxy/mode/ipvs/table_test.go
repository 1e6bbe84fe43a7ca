package ipvs

import (
	"net/netip"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

// Only an API server sends such tables: a file cannot express them, or is refused.

func service(name string, vip string, endpoints ...sources.Endpoint) sources.Service {
	return sources.Service{
		Namespace: "default", Name: name, Type: sources.ClusterIP,
		ClusterIPs:            []netip.Addr{addr(vip)},
		Ports:                 []sources.Port{{Name: "http", Protocol: sources.TCP, Port: 80, TargetPort: 80}},
		ExternalTrafficPolicy: sources.Cluster, InternalTrafficPolicy: sources.Cluster,
		Endpoints: endpoints,
	}
}

func endpoint(a, node string, port uint16) sources.Endpoint {
	return sources.Endpoint{
		Addr: addr(a), NodeName: node, Weight: 1, Ready: true, Serving: true,
		Ports: []sources.EndpointPort{{Name: "http", Protocol: sources.TCP, Port: port}},
	}
}

func wantVirtuals(t *testing.T, s kernel.State, want string) {
	t.Helper()
	if got := (kernel.State{Virtuals: s.Virtuals, Reals: s.Reals}).String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// Two slices can have the same endpoint, for example while one is being split. It
// is one real server. If they disagree whether it is local, it is local.
func TestDuplicateEndpoints(t *testing.T) {
	s := service("web", "10.96.0.20",
		endpoint("10.2.1.10", "n2", 81), endpoint("10.2.1.10", "n2", 80), endpoint("10.2.1.10", "n1", 81))
	s.InternalTrafficPolicy = sources.Local
	state := stateOf(sources.Table{Services: sources.ServicesOf(s)}, kernel.Node{Name: "n1"}, modetest.Defaults())
	wantVirtuals(t, state, "-A -t 10.96.0.20:80 -s rr\n-a -t 10.96.0.20:80 -r 10.2.1.10:81 -m -w 1\n")
	s.InternalTrafficPolicy = sources.Cluster
	state = stateOf(sources.Table{Services: sources.ServicesOf(s)}, kernel.Node{Name: "n1"}, modetest.Defaults())
	wantVirtuals(t, state, "-A -t 10.96.0.20:80 -s rr\n"+
		"-a -t 10.96.0.20:80 -r 10.2.1.10:80 -m -w 1\n-a -t 10.96.0.20:80 -r 10.2.1.10:81 -m -w 1\n")
}

// An endpoint is a real server only of the ports that it serves, by name and
// protocol.
func TestEndpointWithoutPort(t *testing.T) {
	named, other := endpoint("10.2.1.10", "", 80), endpoint("10.2.1.11", "", 80)
	named.Ports[0].Name = "metrics"
	other.Ports[0].Protocol = sources.UDP
	s := service("web", "10.96.0.20", named, other, endpoint("10.2.1.12", "", 80))
	state := stateOf(sources.Table{Services: sources.ServicesOf(s)}, kernel.Node{Name: "n1"}, modetest.Defaults())
	wantVirtuals(t, state, "-A -t 10.96.0.20:80 -s rr\n-a -t 10.96.0.20:80 -r 10.2.1.12:80 -m -w 1\n")
}

// Node hints win over zone hints.
func TestNodeHintsFirst(t *testing.T) {
	here, there := endpoint("10.2.1.10", "n1", 80), endpoint("10.2.2.10", "n2", 80)
	here.Hints = sources.HintsOf([]string{"n1"}, []string{"b"})
	there.Hints = sources.HintsOf([]string{"n2"}, []string{"a"})
	table := sources.Table{Services: sources.ServicesOf(service("web", "10.96.0.20", here, there))}
	wantVirtuals(t, stateOf(table, kernel.Node{Name: "n1", Zone: "a"}, modetest.Defaults()),
		"-A -t 10.96.0.20:80 -s rr\n-a -t 10.96.0.20:80 -r 10.2.1.10:80 -m -w 1\n")
	wantVirtuals(t, stateOf(table, kernel.Node{Name: "n3", Zone: "a"}, modetest.Defaults()),
		"-A -t 10.96.0.20:80 -s rr\n-a -t 10.96.0.20:80 -r 10.2.2.10:80 -m -w 1\n")
}

// If two services have the same VIP:port, which Merge prevents, the first gets it.
// A mixture of both would be worse.
func TestFirstServiceWins(t *testing.T) {
	loser := service("b", "10.96.0.21", endpoint("10.2.9.10", "n2", 80))
	loser.ExternalIPs = []netip.Addr{addr("10.96.0.20")}
	table := sources.Table{Services: sources.ServicesOf(service("a", "10.96.0.20", endpoint("10.2.1.10", "n2", 80)), loser)}
	state := stateOf(table, kernel.Node{Name: "n1"}, modetest.Defaults())
	wantVirtuals(t, state, "-A -t 10.96.0.20:80 -s rr\n-a -t 10.96.0.20:80 -r 10.2.1.10:80 -m -w 1\n"+
		"-A -t 10.96.0.21:80 -s rr\n-a -t 10.96.0.21:80 -r 10.2.9.10:80 -m -w 1\n")
	for e := range state.Entries.All() {
		if e.Set == "KUBE-EXTERNAL-IP" {
			t.Errorf("%s", e)
		}
	}
}

// Loopback addresses are neither VIPs nor endpoints: a virtual server on one drops
// SYNs, and a real server on one answers only the host.
func TestNothingOnLoopback(t *testing.T) {
	table := sources.Table{Services: sources.ServicesOf(
		service("vip", "127.0.0.1", endpoint("10.2.1.10", "", 80)),
		service("web", "10.96.0.20", endpoint("127.0.0.1", "", 80)),
	)}
	wantVirtuals(t, stateOf(table, kernel.Node{Name: "n1"}, modetest.Defaults()), "-A -t 10.96.0.20:80 -s rr\n")
}

// Sets get kube-proxy's capacity, so that it can use them again, or room for twice
// their entries.
func TestCapacity(t *testing.T) {
	for _, s := range stateOf(modetest.Big(600, 1), kernel.Node{Name: "n1"}, modetest.Defaults()).Sets {
		want := uint32(1 << 16)
		if s.Type == kernel.BitmapPort {
			want = 0
		}
		if s.MaxElem != want {
			t.Errorf("%s: want %d", s, want)
		}
	}
	for n, want := range map[int]uint32{0: 1 << 16, 1 << 16: 1 << 16, 1<<16 + 1: 1 << 18} {
		if got := kernel.Capacity(n); got != want {
			t.Errorf("capacity for %d entries is %d, want %d", n, got, want)
		}
	}
}

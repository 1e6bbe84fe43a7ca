package ipvs

import (
	"net/netip"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// These tables come from an API server; a file could not say them, or would be refused.

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

// An endpoint that two slices have, as while one is being split, is one real server; where they differ
// on whether it is local, it is.
func TestDuplicateEndpoints(t *testing.T) {
	s := service("web", "10.96.0.20",
		endpoint("10.2.1.10", "n2", 81), endpoint("10.2.1.10", "n2", 80), endpoint("10.2.1.10", "n1", 81))
	s.InternalTrafficPolicy = sources.Local
	state := stateOf(sources.Table{Services: []sources.Service{s}}, kernel.Node{Name: "n1"}, defaults())
	wantVirtuals(t, state, "-A -t 10.96.0.20:80 -s rr\n-a -t 10.96.0.20:80 -r 10.2.1.10:81 -m -w 1\n")
	s.InternalTrafficPolicy = sources.Cluster
	state = stateOf(sources.Table{Services: []sources.Service{s}}, kernel.Node{Name: "n1"}, defaults())
	wantVirtuals(t, state, "-A -t 10.96.0.20:80 -s rr\n"+
		"-a -t 10.96.0.20:80 -r 10.2.1.10:80 -m -w 1\n-a -t 10.96.0.20:80 -r 10.2.1.10:81 -m -w 1\n")
}

// An endpoint that does not serve a port, by name and protocol, is not a real server of it.
func TestEndpointWithoutPort(t *testing.T) {
	named, other := endpoint("10.2.1.10", "", 80), endpoint("10.2.1.11", "", 80)
	named.Ports[0].Name = "metrics"
	other.Ports[0].Protocol = sources.UDP
	s := service("web", "10.96.0.20", named, other, endpoint("10.2.1.12", "", 80))
	state := stateOf(sources.Table{Services: []sources.Service{s}}, kernel.Node{Name: "n1"}, defaults())
	wantVirtuals(t, state, "-A -t 10.96.0.20:80 -s rr\n-a -t 10.96.0.20:80 -r 10.2.1.12:80 -m -w 1\n")
}

// Node hints go before zone hints.
func TestNodeHintsFirst(t *testing.T) {
	here, there := endpoint("10.2.1.10", "n1", 80), endpoint("10.2.2.10", "n2", 80)
	here.NodeHints, here.ZoneHints = []string{"n1"}, []string{"b"}
	there.NodeHints, there.ZoneHints = []string{"n2"}, []string{"a"}
	table := sources.Table{Services: []sources.Service{service("web", "10.96.0.20", here, there)}}
	wantVirtuals(t, stateOf(table, kernel.Node{Name: "n1", Zone: "a"}, defaults()),
		"-A -t 10.96.0.20:80 -s rr\n-a -t 10.96.0.20:80 -r 10.2.1.10:80 -m -w 1\n")
	wantVirtuals(t, stateOf(table, kernel.Node{Name: "n3", Zone: "a"}, defaults()),
		"-A -t 10.96.0.20:80 -s rr\n-a -t 10.96.0.20:80 -r 10.2.2.10:80 -m -w 1\n")
}

// Of two services at one VIP:port, which Merge would not let through, the first has it whole: a mixture
// of both would be worse than either.
func TestFirstServiceWins(t *testing.T) {
	loser := service("b", "10.96.0.21", endpoint("10.2.9.10", "n2", 80))
	loser.ExternalIPs = []netip.Addr{addr("10.96.0.20")}
	table := sources.Table{Services: []sources.Service{service("a", "10.96.0.20", endpoint("10.2.1.10", "n2", 80)), loser}}
	state := stateOf(table, kernel.Node{Name: "n1"}, defaults())
	wantVirtuals(t, state, "-A -t 10.96.0.20:80 -s rr\n-a -t 10.96.0.20:80 -r 10.2.1.10:80 -m -w 1\n"+
		"-A -t 10.96.0.21:80 -s rr\n-a -t 10.96.0.21:80 -r 10.2.9.10:80 -m -w 1\n")
	for _, e := range state.Entries {
		if e.Set == "KUBE-EXTERNAL-IP" {
			t.Errorf("%s", e)
		}
	}
}

// No VIP and no endpoint is ever on loopback: a virtual server there swallows SYNs, and a real server
// there answers the host alone.
func TestNothingOnLoopback(t *testing.T) {
	table := sources.Table{Services: []sources.Service{
		service("vip", "127.0.0.1", endpoint("10.2.1.10", "", 80)),
		service("web", "10.96.0.20", endpoint("127.0.0.1", "", 80)),
	}}
	wantVirtuals(t, stateOf(table, kernel.Node{Name: "n1"}, defaults()), "-A -t 10.96.0.20:80 -s rr\n")
}

// Sets are made with the capacity of kube-proxy's, which wants that one back, or
// with room for twice what they hold.
func TestCapacity(t *testing.T) {
	for _, s := range stateOf(big(600, 1), kernel.Node{Name: "n1"}, defaults()).Sets {
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

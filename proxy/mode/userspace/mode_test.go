package userspace

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
)

// table has one service of each sort that this mode treats in its own way.
func table() sources.Table {
	endpoint := func(addr string, weight uint32, proto sources.Protocol) sources.Endpoint {
		return sources.Endpoint{Addr: netip.MustParseAddr(addr), Weight: weight, Ready: true, Ports: []sources.EndpointPort{{Protocol: proto, Port: 8080}}}
	}
	service := func(name, vip string, proto sources.Protocol) sources.Service {
		return sources.Service{
			Namespace: "default", Name: name, Type: sources.ClusterIP, ClusterIPs: []netip.Addr{netip.MustParseAddr(vip)},
			Ports:     []sources.Port{{Protocol: proto, Port: 80}},
			Endpoints: []sources.Endpoint{endpoint("10.2.0.1", 3, proto), endpoint("10.2.0.2", 0, proto)},
		}
	}
	sticky, hashed, ranged := service("sticky", "10.96.0.1", sources.TCP), service("hashed", "10.96.0.2", sources.UDP), service("ranged", "10.96.0.3", sources.TCP)
	sticky.Affinity, sticky.AffinityTimeout, sticky.Scheduler = sources.AffinityClientIP, time.Minute, "wrr"
	hashed.Scheduler = "mh"
	ranged.Type, ranged.LoadBalancerIPs = sources.LoadBalancer, []sources.VIP{{Addr: netip.MustParseAddr("192.0.2.1")}}
	ranged.SourceRanges = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
	all := []sources.Service{service("assoc", "10.96.0.4", sources.SCTP), hashed, ranged, sticky}
	return sources.Table{Services: sources.ServicesOf(all...)}
}

func list() *frontend.Frontends {
	return frontend.List(table(), kernel.Node{Name: "n1"}, frontend.Config{Scheduler: "rr"})
}

func TestState(t *testing.T) {
	c := mode.Config{Names: kernel.DefaultNames, StrictARP: true}
	s := Mode{}.State(list(), c)
	want := strings.TrimLeft(`
net.ipv4.conf.all.arp_announce = 2
net.ipv4.conf.all.arp_ignore = 1
link add kube-ipvs0 type dummy
addr add 10.96.0.1/32 dev kube-ipvs0
addr add 10.96.0.2/32 dev kube-ipvs0
addr add 10.96.0.3/32 dev kube-ipvs0
-A -t 10.96.0.1:80 -s wrr -p 60
-a -t 10.96.0.1:80 -r 10.2.0.1:8080 -m -w 3
-a -t 10.96.0.1:80 -r 10.2.0.2:8080 -m -w 0
-A -u 10.96.0.2:80 -s sh
-a -u 10.96.0.2:80 -r 10.2.0.1:8080 -m -w 3
-a -u 10.96.0.2:80 -r 10.2.0.2:8080 -m -w 0
-A -t 10.96.0.3:80 -s rr
-a -t 10.96.0.3:80 -r 10.2.0.1:8080 -m -w 3
-a -t 10.96.0.3:80 -r 10.2.0.2:8080 -m -w 0
`, "\n")
	if got := s.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	for _, p := range s.Sysctls {
		if !slices.Contains(Mode{}.Sysctls(), p.Name) {
			t.Errorf("Sysctls lacks %s", p.Name)
		}
	}
	c.NoDevice = true
	if s := (Mode{}).State(list(), c); len(s.Links)+len(s.Addrs) > 0 || len(s.Routes) != 3 {
		t.Errorf("without dummy devices:\n%s", s)
	}
}

func TestDoubts(t *testing.T) {
	got := strings.Join(Mode{}.Doubts(list(), mode.Config{}), "\n")
	want := `assoc: 10.96.0.4:80/sctp is not served in mode userspace: the relay has no SCTP
hashed: mode userspace has no scheduler mh and uses sh
ranged: 192.0.2.1:80/tcp is not served in mode userspace: the relay cannot hold its source ranges`
	sorted := strings.Split(got, "\n")
	slices.Sort(sorted)
	if got := strings.Join(sorted, "\n"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestNearest(t *testing.T) {
	for name, want := range map[string]string{"rr": "rr", "wlc": "wlc", "mh": "sh", "dh": "rr", "lblcr": "lc", "nq": "wlc", "later": "wrr"} {
		if got, same := Nearest(name); got != want || same != (name == want) {
			t.Errorf("%s: %s, %t", name, got, same)
		}
	}
}

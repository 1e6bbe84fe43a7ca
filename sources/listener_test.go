package sources_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/sources"
)

var own4, own6 = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("2001:db8::1")

// listens is a socket: "sshd 0.0.0.0:22/TCP".
func listens(text string) sources.Listener {
	program, at, _ := strings.Cut(text, " ")
	at, protocol, _ := strings.Cut(at, "/")
	l := sources.Listener{Program: program, V6Only: strings.HasSuffix(protocol, "6")}
	a := netip.MustParseAddrPort(at)
	l.Addr, l.Port = a.Addr(), a.Port()
	l.Protocol, _ = sources.ParseProtocol(strings.TrimSuffix(protocol, "6"))
	return l
}

// What a program of the host has is withheld from a service of a file that asks for it at an address of this node.
func TestProgramsKeepTheirPorts(t *testing.T) {
	for _, c := range []struct {
		name, program string
		change        func(*sources.Service, *sources.HostFacts)
		withheld      string // claims
	}{
		{"node port", "sshd 0.0.0.0:22/TCP", nil, "node port 22/TCP"},
		{"both families", "sshd [::]:22/TCP", nil, "node port 22/TCP"},
		{"at one address", "sshd 10.0.0.1:22/TCP", nil, "node port 22/TCP"},
		{"on loopback", "sshd 127.0.0.1:22/TCP", nil, ""},
		{"on loopback, which serves node ports", "sshd 127.0.0.1:22/TCP",
			func(_ *sources.Service, h *sources.HostFacts) { h.NodePorts.Loopback = true }, "node port 22/TCP"},
		{"at an address that is not the node's", "sshd 192.0.2.9:22/TCP", nil, ""},
		{"another protocol", "sshd 0.0.0.0:22/UDP", nil, ""},
		{"another port", "sshd 0.0.0.0:222/TCP", nil, ""},
		{"the port, not the node port", "nginx 0.0.0.0:80/TCP", nil, "10.0.0.1:80/TCP"},
		{"IPv6 alone", "nginx [::]:80/TCP6", nil, ""},
		{"IPv6 alone, and the node port", "sshd [::]:22/TCP6", nil, "node port 22/TCP"},
		{"the key", "sshd 0.0.0.0:22/TCP", func(s *sources.Service, _ *sources.HostFacts) { s.TakeHostPorts = true }, ""},
		{"an API server", "sshd 0.0.0.0:22/TCP", func(s *sources.Service, _ *sources.HostFacts) { s.Origin.Source = sources.APIServer }, ""},
		{"served by an earlier run", "sshd 0.0.0.0:22/TCP",
			func(_ *sources.Service, h *sources.HostFacts) {
				h.Serving = []sources.Claim{{Port: 22, Protocol: sources.TCP}}
			}, ""},
		{"node ports elsewhere", "sshd 10.0.0.1:22/TCP",
			func(_ *sources.Service, h *sources.HostFacts) {
				h.NodePorts.CIDRs = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
			}, ""},
		{"node ports at the primary address", "sshd 10.0.0.1:22/TCP",
			func(_ *sources.Service, h *sources.HostFacts) { h.NodePorts.Primary = []netip.Addr{own4} }, "node port 22/TCP"},
		{"node ports at another primary address", "sshd 10.0.0.1:22/TCP",
			func(_ *sources.Service, h *sources.HostFacts) { h.NodePorts.Primary = []netip.Addr{own6} }, ""},
		{"the program is an endpoint", "nginx 0.0.0.0:80/TCP",
			func(s *sources.Service, _ *sources.HostFacts) {
				s.Endpoints = append(s.Endpoints, sources.Endpoint{Addr: own4, Ports: []sources.EndpointPort{{Port: 80, Protocol: sources.TCP}}})
			}, ""},
		{"a VIP that is not the node's", "nginx 0.0.0.0:80/TCP",
			func(s *sources.Service, _ *sources.HostFacts) {
				s.ExternalIPs = []netip.Addr{netip.MustParseAddr("198.51.100.8")}
			}, ""},
		{"no addresses are known", "nginx 0.0.0.0:80/TCP", func(_ *sources.Service, h *sources.HostFacts) { h.Addrs = nil }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sources.Service{Namespace: "default", Name: "web", Type: sources.NodePort, ExternalIPs: []netip.Addr{own4},
				Ports:     []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 8080, NodePort: 22}},
				Endpoints: []sources.Endpoint{{Addr: netip.MustParseAddr("10.2.0.1")}},
				Origin:    sources.Origin{Source: sources.Files, File: "services.toml", Line: 1}}
			host := sources.HostFacts{Addrs: []netip.Addr{own4, own6}, Listeners: []sources.Listener{listens(c.program)}}
			if c.change != nil {
				c.change(&s, &host)
			}
			merged := new(sources.Merger).Merge(host, nil, sources.Table{Services: sources.ServicesOf(s)})
			var got []string
			for _, w := range merged.Services.At(0).Withheld {
				got = append(got, w.Claim.String())
				if program, _, _ := strings.Cut(c.program, " "); !strings.HasPrefix(w.Why, program+" listens on ") {
					t.Errorf("why: %s", w.Why)
				}
			}
			if strings.Join(got, ", ") != c.withheld || merged.Awaits != (c.withheld != "") {
				t.Errorf("withheld: %q, awaits %t; want %q", got, merged.Awaits, c.withheld)
			}
			displaced := c.name == "an API server" || c.name == "served by an earlier run"
			if (len(merged.Displaced) == 1) != displaced || (len(merged.Doubts) > 0) != displaced {
				t.Errorf("displaced %v, doubts %v", merged.Displaced, merged.Doubts)
			}
		})
	}
}

// A service that is served stays served when a program begins to listen. One that is withheld is served when the program
// stops, and again withheld if it leaves and comes back.
func TestProgramsComeAndGo(t *testing.T) {
	web := sources.Service{Namespace: "default", Name: "web", Type: sources.NodePort,
		Ports:  []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 8080, NodePort: 22}},
		Origin: sources.Origin{Source: sources.Files, File: "services.toml", Line: 1}}
	var m sources.Merger
	for _, step := range []struct {
		name                string
		there, listens      bool
		withheld, displaced bool
	}{
		{"first wanted", true, true, true, false},
		{"still there", true, true, true, false},
		{"stopped", true, false, false, false},
		{"again", true, true, false, true},
		{"the service is gone", false, true, false, false},
		{"the service is back", true, true, true, false},
	} {
		host := sources.HostFacts{Addrs: []netip.Addr{own4}}
		if step.listens {
			host.Listeners = []sources.Listener{listens("sshd 0.0.0.0:22/TCP")}
		}
		var t1 sources.Table
		if step.there {
			t1.Services = sources.ServicesOf(web)
		}
		if wants := m.Wants(host, []sources.Table{t1}); wants(22, sources.TCP) != step.there || wants(80, sources.TCP) {
			t.Errorf("%s: wants 22 %t, 80 %t", step.name, wants(22, sources.TCP), wants(80, sources.TCP))
		}
		merged := m.Merge(host, nil, t1)
		if merged.Awaits != step.withheld || (len(merged.Displaced) > 0) != step.displaced {
			t.Errorf("%s: withheld %t, displaced %v", step.name, merged.Awaits, merged.Displaced)
		}
	}
}

// A VIP that another program, such as keepalived, moves to this node stays served, although a program listens on all
// addresses of the node.
func TestVIPMovesToNode(t *testing.T) {
	vip := netip.MustParseAddr("198.51.100.8")
	web := sources.Service{Namespace: "default", Name: "web", ExternalIPs: []netip.Addr{vip},
		Ports:  []sources.Port{{Protocol: sources.TCP, Port: 443, TargetPort: 8080}},
		Origin: sources.Origin{Source: sources.Files, File: "services.toml", Line: 1}}
	var m sources.Merger
	for i, addrs := range [][]netip.Addr{{own4}, {own4, vip}, {own4}, {own4, vip}} {
		host := sources.HostFacts{Addrs: addrs, Listeners: []sources.Listener{listens("nginx 0.0.0.0:443/TCP")}}
		merged := m.Merge(host, nil, sources.Table{Services: sources.ServicesOf(web)})
		if merged.Awaits || len(merged.Displaced) != len(addrs)-1 {
			t.Errorf("merge %d: withheld %t, displaced %v", i, merged.Awaits, merged.Displaced)
		}
	}
}

// No service of any source gets a port where svcproxy itself listens, not even with the key.
func TestOwnPortsAreNotTaken(t *testing.T) {
	host := sources.HostFacts{Addrs: []netip.Addr{own4}, Own: []sources.Listener{listens("healthzBindAddress [::]:10256/TCP")}}
	for _, source := range []string{sources.Static, sources.Files, sources.APIServer} {
		s := sources.Service{Namespace: "default", Name: "web", Type: sources.NodePort, ExternalIPs: []netip.Addr{own4}, TakeHostPorts: true,
			Ports:  []sources.Port{{Protocol: sources.TCP, Port: 10256, NodePort: 10256}, {Protocol: sources.TCP, Port: 30500}, {Protocol: sources.UDP, Port: 10256}},
			Origin: sources.Origin{Source: source}}
		checked := sources.Service{Namespace: "default", Name: "checked", Type: sources.LoadBalancer, HealthCheckNodePort: 30500,
			ExternalTrafficPolicy: sources.Local, Origin: sources.Origin{Source: source}}
		table := sources.Table{Services: sources.ServicesOf(checked, s)}
		merged := new(sources.Merger).Merge(host, nil, table)
		var got []string
		for _, w := range merged.Services.At(1).Withheld {
			got = append(got, w.Why)
		}
		want := []string{"node port 10256/TCP is a port of svcproxy itself: healthzBindAddress",
			"10.0.0.1:10256/TCP is a port of svcproxy itself: healthzBindAddress", "10.0.0.1:30500/TCP is a port of svcproxy itself: healthCheckNodePort of "}
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || !strings.HasPrefix(got[i], want[i]) {
				t.Errorf("%s: withheld %q, want %q", source, got, want)
				break
			}
		}
	}
}

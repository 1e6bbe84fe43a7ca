package traffic

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// A backend at its maxConnections gets no new ones, and clients are refused while all are. Connections that exist go on. A
// larger limit is taken in place, also over IPv6.
func TestMaxConnections(t *testing.T) {
	n := newNode(t, "")
	// A backend that was full is so until it has fewer connections than resumeConnections, whatever its limit then is.
	limited := func(most int) string {
		return fmt.Sprintf("maxConnections = %d\nresumeConnections = %d\n", most, most)
	}
	service := clusterIP("web", "10.96.0.20", `["10.2.1.10", "10.2.2.10"]`) + "%s" + clusterIP("six", "fd00:96::20", `["fd00:2:1::10"]`) + "%s"
	n.start(t, fmt.Sprintf(service, limited(2), limited(1)))
	var held []*lab.Conn
	fill := func(to string, wants map[string]int) {
		t.Helper()
		for range wants["pod1"] + wants["pod2"] {
			c, err := n.Client.Dial("tcp", netip.MustParseAddrPort(to))
			must(t, err)
			t.Cleanup(func() { c.Close() })
			a, err := c.Ask()
			must(t, err)
			held = append(held, c)
			wants[a.Backend]--
		}
		if wants["pod1"] != 0 || wants["pod2"] != 0 {
			t.Errorf("%s: connections that backends got too many or too few of: %v", to, wants)
		}
		c, err := n.Client.Dial("tcp", netip.MustParseAddrPort(to))
		if err == nil {
			defer c.Close()
			if a, err := c.Ask(); err == nil {
				t.Errorf("%s: %s took one more connection than it may", to, a.Backend)
			}
		}
	}
	fill("10.96.0.20:80", map[string]int{"pod1": 2, "pod2": 2})
	fill("[fd00:96::20]:80", map[string]int{"pod1": 1})
	n.serve(t, fmt.Sprintf(service, limited(4), limited(2)))
	fill("10.96.0.20:80", map[string]int{"pod1": 2, "pod2": 2})
	fill("[fd00:96::20]:80", map[string]int{"pod1": 1})
	if lost := unanswered(held); lost > 0 {
		t.Errorf("%d of %d connections ended", lost, len(held))
	}
	n.serve(t, fmt.Sprintf(service, "", ""))
	ask(t, n.Client, "tcp", "10.96.0.20:80")
	ask(t, n.Client, "tcp", "[fd00:96::20]:80")
	// Weights count without another scheduler.
	n.serve(t, strings.Replace(fmt.Sprintf(service, "", ""), `"10.2.2.10"`, `{ address = "10.2.2.10", weight = 3 }`, 1))
	if lost := unanswered(held); lost > 0 {
		t.Errorf("%d of %d connections ended when weights were given", lost, len(held))
	}
	got := map[string]int{}
	for range 8 {
		got[ask(t, n.Client, "tcp", "10.96.0.20:80").Backend]++
	}
	if got["pod1"] != 2 || got["pod2"] != 6 {
		t.Errorf("of eight connections by weights 1 and 3 the backends got %v", got)
	}
}

// Clients of one network have one backend, in both families, and networks have several.
func TestAffinityByNetwork(t *testing.T) {
	n := newNode(t, "")
	clients := map[string][]netip.Addr{} // of each VIP; four of each of twelve networks
	for to, base := range map[string]netip.Addr{"10.96.0.20:80": netip.MustParseAddr("192.0.2.0"), "[fd00:96::20]:80": netip.MustParseAddr("2001:db8::ff00")} {
		for network := 16; network < 208; network += 16 {
			for i := range 4 {
				last := base.AsSlice()
				last[len(last)-1] = byte(network + 5*i)
				from, _ := netip.AddrFromSlice(last)
				// Long before it asks: on a busy machine a new address answers no neighbour for seconds.
				must(t, n.Client.IP(fmt.Sprintf("addr add %s/%d dev eth0 nodad", from, from.BitLen())))
				clients[to] = append(clients[to], from)
			}
		}
	}
	n.start(t, fmt.Sprintf("[services.web]\nclusterIPs = [\"10.96.0.20\", \"fd00:96::20\"]\nports = [{ port = 80, targetPort = %d }]\nendpoints = %s\n"+
		"sessionAffinity = \"ClientIP\"\nsessionAffinityPrefix4 = 28\nsessionAffinityPrefix6 = 124\n", lab.LinePort, allPods))
	for to, clients := range clients {
		used := map[string]bool{} // if each network chooses at random, all twelve are alike once in 10^5 times
		for network := range slices.Chunk(clients, 4) {
			backend := askFrom(t, n.Client, network[0], to)
			for _, from := range network[1:] {
				if got := askFrom(t, n.Client, from, to); got != backend {
					t.Errorf("client %s is with %s, others of its network with %s", from, got, backend)
				}
			}
			used[backend] = true
		}
		if len(used) < 2 {
			t.Errorf("%s: twelve networks are all with %v", to, used)
		}
	}
}

// By sh a client's address decides on its backend. With the flag sh-port its port does, too, so that one address has several.
func TestSchedulerFlags(t *testing.T) {
	n := newNode(t, "")
	n.start(t, clusterIP("by-address", "10.96.0.20", allV4)+"scheduler = \"sh\"\n"+
		clusterIP("by-port", "10.96.0.21", allV4)+"scheduler = \"sh\"\nschedulerFlags = [\"sh-fallback\", \"sh-port\"]\n")
	reached := func(to string) map[string]int {
		who := map[string]int{}
		for range 60 {
			a, err := n.askNew(addrPort(to), (*lab.Conn).Ask)
			must(t, err)
			who[a.Backend]++
		}
		return who
	}
	if who := reached("10.96.0.20:80"); len(who) != 1 {
		t.Errorf("without sh-port, 60 connections of one address reached %v, want one backend", who)
	}
	if who := reached("10.96.0.21:80"); len(who) < 2 {
		t.Errorf("with sh-port, 60 connections of one address reached %v alone", who)
	}
}

// With onePacket, datagrams of one flow go to all backends. IPVS forgets each, so with masquerading no reply comes back.
func TestOnePacket(t *testing.T) {
	n := newForwardingNode(t, "")
	n.start(t, forwarded("direct")+"onePacket = true\n")
	for _, vip := range forwardVIPs {
		c, err := n.Client.Dial("udp", netip.AddrPortFrom(vip, lab.LinePort))
		must(t, err)
		defer c.Close()
		found := map[string]bool{}
		for range 6 {
			a, err := c.Ask()
			must(t, err)
			found[a.Backend] = true
		}
		if len(found) != 3 {
			t.Errorf("%s: six datagrams of one flow reached %v", vip, found)
		}
	}
	n.serve(t, forwarded("masquerade")+"onePacket = true\n")
	if a, err := n.Client.Ask("udp", netip.AddrPortFrom(forwardVIPs[0], lab.LinePort)); err == nil {
		t.Errorf("%s answered: onePacket works with masquerading here, and the warning about it is wrong", a.Backend)
	}
	to := netip.AddrPortFrom(forwardVIPs[0], lab.LinePort).String()
	if a := n.explain(t, "udp", to, "--from", n.Client.Addr(forwardVIPs[0]).String()); !strings.Contains(a.Sentence, "without replies") {
		t.Errorf("explain: %s", a.Sentence)
	}
}

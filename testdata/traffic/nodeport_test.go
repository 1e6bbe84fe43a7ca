package traffic

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// Node ports are served at the addresses chosen, never on loopback and never at a
// VIP, be it that what is chosen covers both.
func TestNodePortsAreNeitherOnLoopbackNorOnVIPs(t *testing.T) {
	n := newNode(t, "")
	must(t, n.Serve(web))
	must(t, n.Lab.Node.IP("route add default via 2001:db8::2")) // makes an address primary
	primary := []string{"192.0.2.1", "2001:db8::1"}
	for _, c := range []struct {
		name, chosen string
		want         []string
	}{
		{"primary", `["primary"]`, primary},
		{"everything by CIDR", `["0.0.0.0/0", "::/0"]`, []string{
			"10.2.1.1", "10.2.2.1", "10.2.3.1", "192.0.2.1", "2001:db8::1", "fd00:2:1::1", "fd00:2:2::1", "fd00:2:3::1",
		}},
		{"loopback and VIPs by CIDR", `["192.0.2.0/24", "127.0.0.0/8", "198.51.100.0/24", "10.96.0.0/12", "::1/128", "2001:db8::/32"]`, primary},
	} {
		t.Run(c.name, func(t *testing.T) {
			mark := n.Log.Len()
			n.restart(t, "nodePortAddresses = "+c.chosen)
			n.synced(t, mark)
			wantNodePorts(t, n, c.want)
			for _, to := range []string{"192.0.2.1:30080", "[2001:db8::1]:30080"} {
				wantEach(t, n.Client, "tcp", to)
			}
			for _, addr := range []string{"10.96.0.20", "198.51.100.80", "203.0.113.9", "2001:db8:80::80"} {
				wantRefused(t, n.Client, addr)
			}
			for _, addr := range []string{"127.0.0.1", "::1", "10.96.0.20"} {
				wantRefused(t, n.Lab.Node, addr)
			}
			if !slices.Contains(c.want, "10.2.1.1") {
				wantRefused(t, n.Client, "10.2.1.1")
			}
		})
	}
	n.healthy(t)
}

func wantRefused(t *testing.T, from *lab.Host, addr string) {
	t.Helper()
	if err := connect(from, addr, 30080); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("%s asks for the node port at %s: want refused, got %v", from.Name, addr, err)
	}
}

// wantNodePorts wants virtual servers of the node port at exactly these
// addresses, TCP and UDP, and none at all on loopback.
func wantNodePorts(t *testing.T, n node, want []string) {
	t.Helper()
	var have []string
	for name, v := range n.virtuals(t) {
		if v.Addr().IsLoopback() {
			t.Errorf("a virtual server on loopback: %s", name)
		}
		if v.Port() == 30080 {
			have = append(have, v.Addr().String())
		}
	}
	slices.Sort(have)
	both := slices.Concat(want, want)
	slices.Sort(both)
	if !slices.Equal(have, both) {
		t.Errorf("node ports at %q, want %q", have, both)
	}
}

// virtuals are the addresses that are served, by protocol and address: 10.96.0.20,tcp:80.
func (n node) virtuals(t *testing.T) map[string]netip.AddrPort {
	t.Helper()
	all := map[string]netip.AddrPort{}
	switch n.Mode {
	case "ipvs":
		list, err := lab.VirtualServers(n.read(t).Virtuals)
		must(t, err)
		for _, v := range list {
			all[v.Entry] = v.Addr
		}
		return all
	case "userspace": // but for what svcproxy serves itself
		for line := range strings.Lines(n.tool(t, "ss", "-Hlntu", "sport < 10249 or sport > 10256")) {
			f := strings.Fields(line)
			addr, err := netip.ParseAddrPort(f[4])
			must(t, err)
			all[fmt.Sprintf("%s,%s:%d", addr.Addr(), f[0], addr.Port())] = addr
		}
		return all
	}
	reals, err := n.Lab.Node.Chosen()
	must(t, err)
	for r := range reals {
		all[fmt.Sprintf("%s,%s:%d", r.Virtual.Addr(), r.Network, r.Virtual.Port())] = r.Virtual
	}
	return all
}

// A service cannot have a loopback address: its file is refused.
func TestLoopbackIsRefusedAsAVIP(t *testing.T) {
	n := newLonelyNode(t, "")
	n.start(t, web)
	before := n.read(t)
	for _, vip := range []string{`clusterIP = "127.0.0.1"`, `externalIPs = ["127.9.9.9"]`, `loadBalancerIPs = ["::1"]`} {
		mark := n.Log.Len()
		must(t, n.Serve(web+"[services.loop]\ntype = \"LoadBalancer\"\nports = [{ port = 80 }]\n"+vip+"\n"))
		_, err := n.Wait(mark, "loopback")
		must(t, err)
	}
	if diff := lab.Diff(before, n.read(t)); diff != "" {
		t.Errorf("refused tables changed the kernel:\n%s", diff)
	}
}

package link

import (
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

func TestPaths(t *testing.T) {
	kerneltest.NewNamespace(t)
	for _, line := range []string{
		"link set lo up", "link add eth0 type veth peer name peer0", "link add eth1 type veth peer name peer1",
		"link set eth0 up", "link set peer0 up", "link set eth1 up", "link set peer1 up",
		"addr add 192.0.2.1/24 dev eth0", "addr add 10.2.1.1/24 dev eth1", "addr add 2001:db8::1/64 dev eth0 nodad",
		"route add default via 192.0.2.2", "route add unreachable 10.7.0.0/16", "route add prohibit 10.8.0.0/16", "route add blackhole 10.9.0.0/16",
		"route add local 203.0.113.9 dev lo", "rule add from 10.2.1.66 prohibit", "rule add from 10.2.1.67 blackhole",
		"neigh add 192.0.2.2 lladdr 02:00:00:00:00:02 nud permanent dev eth0", "neigh add 10.2.1.10 lladdr 02:00:00:00:00:03 nud stale dev eth1",
	} {
		kerneltest.Run(t, "ip", strings.Fields(line)...)
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/conf/eth1/forwarding", []byte("1"), 0o644); err != nil { // else nothing that comes in has a route
		t.Fatal(err)
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/conf/eth1/rp_filter", []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := OpenPaths()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	a := netip.MustParseAddr
	for _, c := range []struct {
		path kernel.Path
		want kernel.Hop
	}{
		{kernel.Path{Dst: a("198.51.100.7")}, kernel.Hop{Kind: kernel.Unicast, Link: "eth0", Gateway: a("192.0.2.2"), Source: a("192.0.2.1"), Neighbor: "permanent"}},
		{kernel.Path{Dst: a("10.2.1.10")}, kernel.Hop{Kind: kernel.Unicast, Link: "eth1", Source: a("10.2.1.1"), Neighbor: "stale"}},
		{kernel.Path{Dst: a("10.2.1.11")}, kernel.Hop{Kind: kernel.Unicast, Link: "eth1", Source: a("10.2.1.1")}},
		{kernel.Path{Dst: a("203.0.113.9")}, kernel.Hop{Kind: kernel.LocalRoute, Link: "lo", Source: a("203.0.113.9")}},
		{kernel.Path{Dst: a("10.7.0.1")}, kernel.Hop{Kind: kernel.Unreachable}},
		{kernel.Path{Dst: a("10.8.0.1")}, kernel.Hop{Kind: kernel.Prohibited}},
		{kernel.Path{Dst: a("10.9.0.1")}, kernel.Hop{Kind: kernel.Blackhole}},
		{kernel.Path{Src: a("10.2.1.10"), Dst: a("203.0.113.9"), In: "eth1"}, kernel.Hop{Kind: kernel.LocalRoute, Link: "lo"}},
		// rp_filter of eth1: the route to this source leaves by eth0.
		{kernel.Path{Src: a("198.51.100.7"), Dst: a("203.0.113.9"), In: "eth1"}, kernel.Hop{Kind: kernel.Forged}},
		// No other host has an address of the node.
		{kernel.Path{Src: a("192.0.2.1"), Dst: a("203.0.113.9"), In: "eth0"}, kernel.Hop{Kind: kernel.Forged}},
		// Rules of routing ask for the source of what comes in.
		{kernel.Path{Src: a("10.2.1.66"), Dst: a("198.51.100.7"), In: "eth1"}, kernel.Hop{Kind: kernel.Prohibited}},
		{kernel.Path{Src: a("10.2.1.67"), Dst: a("198.51.100.7"), In: "eth1"}, kernel.Hop{Kind: kernel.Blackhole}},
		{kernel.Path{Dst: a("2001:db8::7")}, kernel.Hop{Kind: kernel.Unicast, Link: "eth0", Source: a("2001:db8::1")}},
		{kernel.Path{Dst: a("2001:db8::1")}, kernel.Hop{Kind: kernel.LocalRoute, Link: "lo", Source: a("2001:db8::1")}},
		{kernel.Path{Dst: a("2001:db8:7::1")}, kernel.Hop{Kind: kernel.Unreachable}},
	} {
		got, err := p.Hop(c.path)
		// The kernel adds the local route of an IPv6 address a moment after the address.
		for wait := time.Now().Add(10 * time.Second); err == nil && got != c.want && time.Now().Before(wait); got, err = p.Hop(c.path) {
			time.Sleep(10 * time.Millisecond)
		}
		if err != nil || got != c.want {
			t.Errorf("%+v: %+v, %v; want %+v", c.path, got, err, c.want)
		}
	}
	if _, err := p.Hop(kernel.Path{Src: a("10.2.1.10"), Dst: a("203.0.113.9"), In: "eth9"}); err == nil {
		t.Error("a device that does not exist has routes")
	}
}

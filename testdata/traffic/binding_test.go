package traffic

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// A load is clients that ask all the time, each at a steady pace.
type load struct {
	ctx     context.Context
	end     context.CancelFunc
	clients sync.WaitGroup

	mu      sync.Mutex
	asked   int
	slowest time.Duration
	errs    []error
}

func newLoad(t *testing.T) *load {
	l := &load{}
	l.ctx, l.end = context.WithCancel(t.Context())
	t.Cleanup(l.clients.Wait)
	t.Cleanup(l.end)
	return l
}

// add has a client ask until the load ends. One error is enough of it.
func (l *load) add(name string, ask func() error) {
	l.clients.Go(func() {
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for l.ctx.Err() == nil {
			begin := time.Now()
			err := ask()
			l.mu.Lock()
			l.asked++
			l.slowest = max(l.slowest, time.Since(begin))
			if err != nil {
				l.errs = append(l.errs, fmt.Errorf("%s: %w", name, err))
			}
			l.mu.Unlock()
			if err != nil {
				return
			}
			select {
			case <-tick.C:
			case <-l.ctx.Done():
			}
		}
	})
}

// put has a host ask an address on one connection, on one UDP socket, and on a
// new connection each time.
func (l *load) put(t *testing.T, from *lab.Host, to string) {
	t.Helper()
	addr := netip.MustParseAddrPort(to)
	for _, network := range []string{"tcp", "udp"} {
		c, err := from.Dial(network, addr)
		must(t, err)
		t.Cleanup(func() { c.Close() })
		l.add(from.Name+", one socket to "+network+" "+to, func() error { _, err := c.Ask(); return err })
	}
	l.add(from.Name+", a connection each to "+to, func() error { _, err := from.Ask("tcp", addr); return err })
}

// asks is how often was asked so far.
func (l *load) asks() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}

// goOn waits until so many more questions were answered.
func (l *load) goOn(t *testing.T, more int) {
	t.Helper()
	before := l.asks()
	must(t, lab.Eventually(patience, func() error {
		if now := l.asks(); now < before+more {
			return fmt.Errorf("%d questions more of %d", now-before, more)
		}
		return nil
	}))
}

// wantServed ends the load and wants every question to have been answered.
func (l *load) wantServed(t *testing.T) {
	t.Helper()
	l.end()
	l.clients.Wait()
	for _, err := range l.errs {
		t.Error(err)
	}
	t.Logf("%d questions, the slowest took %v", l.asked, l.slowest)
}

// VIPs change from addresses to local routes and back while they are asked, by
// other hosts and by the node itself.
func TestVIPBindingChangesUnderTraffic(t *testing.T) {
	kerneltest.Need(t, kerneltest.Dummy)
	n := newNode(t, "")
	n.start(t, web)
	l := newLoad(t)
	for _, to := range []string{"10.96.0.20:80", "[fd00:96::20]:80", "198.51.100.80:80", "[2001:db8:80::80]:80"} {
		l.put(t, n.Client, to)
	}
	l.put(t, n.Lab.Node, "10.96.0.20:80")
	l.put(t, n.Lab.Node, "[fd00:96::20]:80")
	l.goOn(t, 100)
	for _, binding := range []string{"route", "address"} {
		mark := n.Log.Len()
		n.restart(t, fmt.Sprintf("ipvs.vipBinding = %q", binding))
		n.synced(t, mark)
		n.wantBound(t, binding != "route")
		l.goOn(t, 100)
	}
	l.wantServed(t)
}

// wantBound wants every VIP of web to be local by an address, or by a route.
func (n node) wantBound(t *testing.T, address bool) {
	t.Helper()
	addrs, err := n.Lab.Node.Addrs()
	must(t, err)
	local, err := n.Lab.Node.Local()
	must(t, err)
	for _, vip := range []string{"10.96.0.20/32", "203.0.113.9/32", "198.51.100.80/32", "fd00:96::20/128", "2001:db8:9::9/128", "2001:db8:80::80/128"} {
		if bound := slices.Contains(addrs, "kube-ipvs0 "+vip); bound != address {
			t.Errorf("%s is an address: %v, want %v", vip, bound, address)
		}
		addr, _, _ := strings.Cut(vip, "/")
		routed := slices.ContainsFunc(local, func(line string) bool { return strings.HasPrefix(line, "local "+addr+" dev lo proto 1") })
		if routed == address {
			t.Errorf("%s is routed: %v, want %v; local is\n%s", vip, routed, !address, strings.Join(local, "\n"))
		}
	}
}

// What is local by a route is served like an address in every other way.
func TestRoutedVIPs(t *testing.T) {
	n := newNode(t, `ipvs.vipBinding = "route"`)
	n.start(t, web)
	for _, kind := range [][]string{
		{"10.96.0.20:80", "[fd00:96::20]:80"}, {"203.0.113.9:80", "[2001:db8:9::9]:80"},
		{"198.51.100.80:80", "[2001:db8:80::80]:80"}, {"192.0.2.1:30080", "[2001:db8::1]:30080"},
	} {
		for _, from := range []*lab.Host{n.Client, n.Lab.Node, n.Backends[0].Host} {
			for _, to := range kind {
				wantEach(t, from, "tcp", to)
				wantEach(t, from, "udp", to)
			}
		}
	}
	sshd, err := n.Lab.Node.Listen(2222)
	must(t, err)
	defer sshd.Close()
	for _, vip := range []string{"10.96.0.20", "fd00:96::20"} {
		if err := n.Client.Ping(netip.MustParseAddr(vip)); err != nil {
			t.Error(err)
		}
		if err := connect(n.Client, vip, 2222); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("port 2222 of %s: want refused, got %v", vip, err)
		}
	}
	n.serve(t, clusterIP("other", "10.96.0.21", allV4))
	if err := connect(n.Client, "10.96.0.20", 80); err == nil {
		t.Error("a VIP that is no longer served still answers")
	}
	wantEach(t, n.Client, "tcp", "10.96.0.21:80")
	n.healthy(t)
}

// VIPs inside the client's own network, which it asks for on the link.
func TestVIPsOnTheClientsLink(t *testing.T) {
	const table = `
[services.web]
type = "LoadBalancer"
loadBalancerIPs = ["192.0.2.80", "2001:db8::80"]
ports = [{ port = 80, targetPort = 7000 }]
endpoints = ` + allPods + "\n"
	n := newNode(t, "")
	// Somebody else's, of the same kinds.
	must(t, n.Lab.Node.IP("route add local 203.0.113.200 dev lo table local proto static",
		"route add local 2001:db8:99::99 dev lo table local proto static",
		"neigh add proxy 2001:db8::99 dev uplink", "neigh add proxy 2001:db8::80 dev pod1"))
	before, proxying := n.local(t), n.tool(t, "sysctl", "net.ipv6.conf.uplink.proxy_ndp")
	n.start(t, table)
	for i, c := range []struct {
		main     string
		answered bool
	}{
		{"ipvs.vipBinding = \"address\"", true},
		{"ipvs.vipBinding = \"address\"\nipvs.strictARP = true", false},
		{"ipvs.vipBinding = \"route\"\nipvs.strictARP = true", false},
		{"ipvs.vipBinding = \"route\"", true},
	} {
		mark := n.Log.Len()
		n.restart(t, c.main)
		n.serve(t, table+clusterIP(fmt.Sprintf("sign-%d", mark), fmt.Sprintf("10.96.0.%d", 100+i), allV4)) // a change to wait for
		for _, vip := range []string{"192.0.2.80", "2001:db8::80"} {
			must(t, lab.Eventually(patience, func() error {
				must(t, n.forgetNeighbor(vip))
				err := n.Client.Ping(netip.MustParseAddr(vip))
				if answered := err == nil; answered != c.answered {
					return fmt.Errorf("%s: %s answers on the link: %v, want %v", c.main, vip, err, c.answered)
				}
				return nil
			}))
			if c.answered {
				ask(t, n.Client, "tcp", netip.AddrPortFrom(netip.MustParseAddr(vip), 80).String())
			}
		}
		// If the path goes through a router, no host has to answer on a link.
		sign := netip.MustParseAddrPort(fmt.Sprintf("10.96.0.%d:80", 100+i))
		must(t, lab.Eventually(patience, func() error { _, err := n.Client.Ask("tcp", sign); return err }))
		n.healthy(t)
	}

	must(t, n.Stop())
	if out, code, err := n.Command("cleanup"); err != nil || code != 0 {
		t.Fatalf("cleanup: %v, exit code %d\n%s", err, code, out)
	}
	if after := n.local(t); after != before {
		t.Errorf("local before\n%s\nafter cleanup\n%s", before, after)
	}
	if now := n.tool(t, "sysctl", "net.ipv6.conf.uplink.proxy_ndp"); now != proxying {
		t.Errorf("before: %s after cleanup: %s", proxying, now)
	}
}

// local is what the node takes and answers for, in one text.
func (n node) local(t *testing.T) string {
	t.Helper()
	lines, err := n.Lab.Node.Local()
	must(t, err)
	return strings.Join(lines, "\n")
}

// forgetNeighbor has the client ask on its link again.
func (n node) forgetNeighbor(addr string) error {
	return n.Client.IP("neigh flush to " + addr + " dev eth0")
}

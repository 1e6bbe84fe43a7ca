package apiserver_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// fleetVIP is that of the page's objects.
var fleetVIP = netip.MustParseAddrPort("198.51.100.80:80")

// The objects of svcproxy-fleet(7), written by hand to an API server without nodes and
// controllers, serve on three nodes. One write changes all three, and without the API server all three serve on.
func TestFleet(t *testing.T) {
	v := visiting(t)
	if v == nil {
		runInGuest(t, newCluster(t), 0)
		return
	}
	objects := pageObjects(t)
	must(t, v.admin.Apply(objects))
	f, nodes, gate := v.newFleet(t)
	for i, p := range nodes {
		must(t, p.Start())
		_, err := p.Wait(0, lab.Synced)
		must(t, err)
		_, err = p.Wait(0, fmt.Sprintf("no Node object.*node=n%d", i+1))
		must(t, err)
	}
	wantServed(t, f, "pod1", "pod2")

	moved := strings.Replace(objects, "10.20.0.102", "10.20.0.103", 1)
	must(t, v.admin.Apply(moved))
	wantServed(t, f, "pod1", "pod3")

	must(t, gate.Close())
	for _, p := range nodes {
		_, err := p.Wait(0, "cannot reach https://10.20.0.254")
		must(t, err)
	}
	must(t, v.admin.Apply(objects)) // not seen yet
	wantServed(t, f, "pod1", "pod3")
	must(t, nodes[0].Stop())
	wantServed(t, f, "pod1", "pod3")
	mark := nodes[0].Log.Len()
	must(t, nodes[0].Start())
	_, err := nodes[0].Wait(mark, "cannot reach https://10.20.0.254")
	must(t, err)
	wantServed(t, f, "pod1", "pod3")

	must(t, gate.Open())
	wantServed(t, f, "pod1", "pod2")
}

// pageObjects are the objects of svcproxy-fleet(7), for the addresses of a lab.Fabric.
func pageObjects(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../packaging/docs/pages/svcproxy-fleet.7.md")
	must(t, err)
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("the page has no objects")
	}
	in := strings.NewReplacer("10.2.1.10", "10.20.0.101", "10.2.2.10", "10.20.0.102", "8080", "7000")
	return in.Replace(string(block[1]))
}

// newFleet prepares three nodes behind a router, where the gate to the API server is.
func (v *visit) newFleet(t *testing.T) (*lab.Fabric, []*lab.Proxy, *gate) {
	t.Helper()
	kerneltest.Need(t, kerneltest.Root, kerneltest.IPVS, kerneltest.Dummy)
	f, err := lab.NewFabric(3, 3)
	must(t, err)
	server, err := url.Parse(v.Server)
	must(t, err)
	g := &gate{at: f.Router, server: server.Host}
	must(t, g.Open())
	binary, err := filepath.Abs(svcproxy)
	must(t, err)
	var nodes []*lab.Proxy
	t.Cleanup(func() {
		for i, p := range nodes {
			p.Kill()
			if t.Failed() {
				t.Logf("log of node %d:\n%s", i+1, tail(p.Log.String(), 30))
			}
		}
		if err := errors.Join(g.Close(), f.Close()); err != nil {
			t.Error(err)
		}
	})
	direct, err := os.ReadFile(v.Kubeconfig)
	must(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	through := strings.Replace(string(direct), fmt.Sprintf("%q", v.Server), fmt.Sprintf("\"https://10.20.0.254:6443\", \"tls-server-name\": %q", server.Hostname()), 1)
	must(t, os.WriteFile(path, []byte(through), 0o600))
	for i, h := range f.Nodes {
		p, err := lab.NewProxy(h, binary, t.TempDir(), fmt.Sprintf("hostnameOverride = \"n%d\"\nclientConnection.kubeconfig = %q\nsources.apiserver.enabled = true\n", i+1, path))
		must(t, err)
		nodes = append(nodes, p)
	}
	return f, nodes, g
}

// wantServed waits until each node alone gives the client these backends in turn.
func wantServed(t *testing.T, f *lab.Fabric, want ...string) {
	t.Helper()
	for n := range f.Nodes {
		must(t, f.Route(fleetVIP.Addr(), n+1))
		must(t, lab.Eventually(patience, func() error {
			who := map[string]bool{}
			for range 2 * len(want) {
				a, err := f.Client.Ask("tcp", fleetVIP)
				if err != nil {
					return fmt.Errorf("node %d: %w", n+1, err)
				}
				who[a.Backend] = true
			}
			for _, b := range want {
				if !who[b] || len(who) != len(want) {
					return fmt.Errorf("node %d: answered by %v, want %v", n+1, who, want)
				}
			}
			return nil
		}))
	}
}

// A gate passes connections from a host of a lab to a server that only this process reaches. A closed gate cuts them
// and refuses others, like a server that has ended.
type gate struct {
	at     *lab.Host
	server string

	mu       sync.Mutex
	listener net.Listener
	open     []net.Conn
}

// Open listens on port 6443.
func (g *gate) Open() error {
	l, err := g.at.Listen(6443)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listener = l
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go g.pass(l, c)
		}
	}()
	return nil
}

func (g *gate) pass(l net.Listener, c net.Conn) {
	defer c.Close()
	s, err := net.DialTimeout("tcp", g.server, 10*time.Second)
	if err != nil {
		return
	}
	defer s.Close()
	g.mu.Lock()
	closed := g.listener != l
	g.open = append(g.open, c, s)
	g.mu.Unlock()
	if closed {
		return
	}
	go func() {
		io.Copy(s, c)
		s.Close()
	}()
	io.Copy(c, s)
}

// Close cuts all connections.
func (g *gate) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listener == nil {
		return nil
	}
	err := g.listener.Close()
	g.listener = nil
	for _, c := range g.open {
		c.Close()
	}
	g.open = nil
	return err
}

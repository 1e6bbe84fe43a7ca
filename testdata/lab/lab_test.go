package lab_test

import (
	"errors"
	"io"
	"net/netip"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

func newLab(t *testing.T) *lab.Lab {
	t.Helper()
	kerneltest.Need(t, kerneltest.Root, kerneltest.Tool("ip"))
	l, err := lab.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestEveryHostReachesEveryBackendThroughTheNode(t *testing.T) {
	l := newLab(t)
	if err := route(l.Node); err != nil {
		t.Fatal(err)
	}
	for _, network := range []string{"tcp", "udp"} {
		for _, from := range []*lab.Host{l.Client, l.Node, l.Backends[0].Host} {
			for _, b := range l.Backends {
				for _, addr := range []netip.Addr{b.V4, b.V6} {
					got, err := from.Ask(network, netip.AddrPortFrom(addr, lab.LinePort))
					if err != nil {
						t.Errorf("%s from %s: %v", network, from.Name, err)
					} else if got.Backend != b.Name || from == l.Client && got.Client.Addr() != from.Addr(addr) {
						t.Errorf("%s from %s to %s: %+v", network, from.Name, b.Name, got)
					}
				}
			}
		}
	}
	got, err := lab.Get(l.Client.HTTP(lab.AskLimit), netip.AddrPortFrom(l.Backends[1].V4, lab.HTTPPort))
	if err != nil || got.Backend != "pod2" || got.Client.Addr() != l.Client.V4 {
		t.Errorf("HTTP: %+v, %v", got, err)
	}
}

// A virtual server made by hand shows that the lab would see one of svcproxy's.
func TestVirtualServerByHand(t *testing.T) {
	kerneltest.Need(t, kerneltest.IPVS, kerneltest.Dummy, kerneltest.Tool("ipvsadm"))
	l := newLab(t)
	if err := route(l.Node); err != nil {
		t.Fatal(err)
	}
	if err := l.Node.IP("link add vips type dummy", "addr add 10.96.0.1/32 dev vips", "addr add fd00:96::1/128 dev vips nodad"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Node.Feed("-A -t 10.96.0.1:7000 -s rr\n-a -t 10.96.0.1:7000 -r 10.2.1.10:7000 -m\n-a -t 10.96.0.1:7000 -r 10.2.2.10:7000 -m\n"+
		"-A -u [fd00:96::1]:7000 -s rr\n-a -u [fd00:96::1]:7000 -r [fd00:2:3::10]:7000 -m\n", "ipvsadm", "-R"); err != nil {
		t.Fatal(err)
	}
	who := map[string]int{}
	for range 4 {
		a, err := l.Client.Ask("tcp", netip.MustParseAddrPort("10.96.0.1:7000"))
		if err != nil {
			t.Fatal(err)
		}
		who[a.Backend]++
	}
	if who["pod1"] != 2 || who["pod2"] != 2 {
		t.Errorf("round robin over two: %v", who)
	}
	if a, err := l.Client.Ask("udp", netip.MustParseAddrPort("[fd00:96::1]:7000")); err != nil || a.Backend != "pod3" {
		t.Errorf("UDP over IPv6: %+v, %v", a, err)
	}
	r, err := l.Node.Read()
	if err != nil {
		t.Fatal(err)
	}
	vs, err := lab.VirtualServers(r.Virtuals)
	if err != nil || len(vs) != 2 || vs[0].Entry != "10.96.0.1,tcp:7000" || vs[1].Entry != "fd00:96::1,udp:7000" {
		t.Errorf("%v, %v out of %q", vs, err, r.Virtuals)
	}
}

// route has a namespace forward, which in other tests is svcproxy's work.
func route(h *lab.Host) error {
	_, err := h.Run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
	return err
}

func TestLogWaitsForWholeLines(t *testing.T) {
	var log lab.Log
	log.Write([]byte("synced before\n"))
	mark := log.Len()
	go func() {
		log.Write([]byte("level=INFO msg=syn"))
		log.Write([]byte("ced ops=3\n"))
	}()
	line, err := log.Wait(t.Context(), mark, "synced")
	if err != nil || line != "level=INFO msg=synced ops=3" {
		t.Errorf("%q, %v", line, err)
	}
}

func TestEventuallyAsksUntilItIsSo(t *testing.T) {
	asked := 0
	if err := lab.Eventually(time.Minute, func() error {
		if asked++; asked < 3 {
			return errors.New("not yet")
		}
		return nil
	}); err != nil || asked != 3 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	if err := lab.Eventually(0, func() error { return io.EOF }); !errors.Is(err, io.EOF) {
		t.Errorf("what never happens: %v", err)
	}
}

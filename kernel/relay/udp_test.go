package relay

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
)

// echoUDP answers each datagram with its own address, a space and the datagram.
func echoUDP(t testing.TB, f kernel.Family) netip.AddrPort {
	t.Helper()
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(vip[f], 0)))
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	at := c.LocalAddr().(*net.UDPAddr).AddrPort()
	done.Go(func() {
		for b := make([]byte, 1<<16); ; {
			n, from, err := c.ReadFromUDPAddrPort(b)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			c.WriteToUDPAddrPort(append([]byte(at.String()+" "), b[:n]...), from)
		}
	})
	t.Cleanup(func() {
		c.Close()
		done.Wait()
	})
	return at
}

// closedUDP is a port that answers with an error of ICMP.
func closedUDP(t testing.TB, f kernel.Family) netip.AddrPort {
	t.Helper()
	s, err := open(kernel.UDP, netip.AddrPortFrom(vip[f], 0))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	return s.addr()
}

// dialUDP makes a connected socket: it takes datagrams from the virtual server's address only.
func dialUDP(t testing.TB, to netip.AddrPort) *net.UDPConn {
	t.Helper()
	c, err := net.Dial("udp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c.(*net.UDPConn)
}

// ask sends a datagram and returns who answers.
func ask(t testing.TB, c *net.UDPConn, what string) netip.AddrPort {
	t.Helper()
	at, err := tryAsk(c, what)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func tryAsk(c *net.UDPConn, what string) (netip.AddrPort, error) {
	if _, err := c.Write([]byte(what)); err != nil {
		return netip.AddrPort{}, err
	}
	b := make([]byte, 1<<16)
	n, err := c.Read(b)
	if err != nil {
		return netip.AddrPort{}, err
	}
	at, rest, _ := bytes.Cut(b[:n], []byte(" "))
	if string(rest) != what {
		return netip.AddrPort{}, fmt.Errorf("%d bytes, want %d", len(rest), len(what))
	}
	return netip.ParseAddrPort(string(at))
}

func TestUDP(t *testing.T) {
	families(t, func(t *testing.T, f kernel.Family) {
		r := newRelay(t, Options{UDPIdle: time.Minute})
		v := virtual(t, kernel.UDP, f, "rr")
		a, b := echoUDP(t, f), echoUDP(t, f)
		serve(t, r, v, a, b)
		one, other := dialUDP(t, v.Key.AddrPort()), dialUDP(t, v.Key.AddrPort())
		first := ask(t, one, "hello")
		if got := ask(t, other, "hello"); got == first {
			t.Error("two clients have one endpoint")
		}
		for _, what := range []string{"", "x", string(make([]byte, 1400)), string(make([]byte, 60_000))} {
			if got := ask(t, one, what); got != first {
				t.Errorf("the flow moved to %v", got)
			}
		}
		if got := conns(r, target(v, a, 1)); got != (kernel.Conns{Inactive: 1}) {
			t.Errorf("%+v", got)
		}
		name := uint64(len(a.String()) + 1)
		in := uint64(5 + 5 + 0 + 1 + 1400 + 60_000)
		want := kernel.Traffic{Conns: 2, InPackets: 6, OutPackets: 6, InBytes: in, OutBytes: in + 6*name}
		if len(a.String()) == len(b.String()) {
			eventually(t, "counted", func() bool { return r.Counters().Total == want && r.Counters().Virtuals[0].Traffic == want })
		}
		if s := r.Stats(); s.Flows != 2 || s.Dropped != 0 {
			t.Errorf("%+v", s)
		}
		// A flow ends with its endpoint, and goes on with another.
		apply(t, r, remove(target(v, first, 1)))
		if got := ask(t, one, "again"); got == first {
			t.Error("an endpoint that was removed answers")
		}
		apply(t, r, remove(v))
		if s := r.Stats(); s.Flows != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A flow ends when it has had no datagram for a time. Datagrams of either side keep it.
func TestUDPIdle(t *testing.T) {
	r := newRelay(t, Options{UDPIdle: 5 * time.Second})
	v := virtual(t, kernel.UDP, kernel.IPv4, "rr")
	a, b := echoUDP(t, kernel.IPv4), echoUDP(t, kernel.IPv4)
	serve(t, r, v, a, b)
	c := dialUDP(t, v.Key.AddrPort())
	first := ask(t, c, "x")
	for begin := time.Now(); time.Since(begin) < 7*time.Second; time.Sleep(20 * time.Millisecond) {
		if got := ask(t, c, "x"); got != first {
			t.Fatalf("the flow ended after %v", time.Since(begin))
		}
	}
	eventually(t, "ended", func() bool { return r.Stats().Flows == 0 })
	if got := ask(t, c, "x"); got == first {
		t.Error("a new flow has the turn of the old one")
	}
}

// A server may send on by itself, and each datagram keeps the flow.
func TestUDPServerPushes(t *testing.T) {
	r := newRelay(t, Options{UDPIdle: 2 * time.Second})
	v := virtual(t, kernel.UDP, kernel.IPv4, "rr")
	server, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(vip[kernel.IPv4], 0)))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	serve(t, r, v, server.LocalAddr().(*net.UDPAddr).AddrPort())
	c := dialUDP(t, v.Key.AddrPort())
	c.Write([]byte("subscribe"))
	b := make([]byte, 100)
	_, from, err := server.ReadFromUDPAddrPort(b)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 45 { // for longer than two idle times
		server.WriteToUDPAddrPort([]byte{byte(i)}, from)
		if n, err := c.Read(b); err != nil || n != 1 || b[0] != byte(i) {
			t.Fatalf("datagram %d: %v, %v", i, b[:n], err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// An endpoint that refuses loses the flow to another one, with the datagram; the client does not
// notice. A second refusal ends the flow.
func TestUDPRefused(t *testing.T) {
	families(t, func(t *testing.T, f kernel.Family) {
		r := newRelay(t, Options{UDPIdle: time.Minute})
		v := persistent(virtual(t, kernel.UDP, f, "rr"), 100)
		dead, live := closedUDP(t, f), echoUDP(t, f)
		serve(t, r, v, dead)
		apply(t, r, add(target(v, live, 1)))
		for range 3 {
			if got := ask(t, dialUDP(t, v.Key.AddrPort()), "hello"); got != live {
				t.Errorf("%v answers", got)
			}
		}
		if s := r.Stats(); s.Retries > 1 || s.Flows != 3 {
			t.Errorf("%+v", s)
		}
		apply(t, r, remove(target(v, live, 1)), add(target(v, closedUDP(t, f), 1)))
		before := r.Stats().Retries
		dialUDP(t, v.Key.AddrPort()).Write([]byte("hello"))
		eventually(t, "ended", func() bool { return r.Stats().Flows == 0 && r.Stats().Retries == before+1 })
	})
}

func TestUDPWithoutEndpoints(t *testing.T) {
	r := newRelay(t, Options{})
	v := virtual(t, kernel.UDP, kernel.IPv4, "rr")
	serve(t, r, v)
	dialUDP(t, v.Key.AddrPort()).Write([]byte("hello"))
	eventually(t, "dropped", func() bool { return r.Stats().Dropped == 1 && r.Stats().Unreachable == 1 })
}

// At the limit, the flow whose client has been silent for longest ends.
func TestUDPFlowLimit(t *testing.T) {
	r := newRelay(t, Options{UDPIdle: time.Minute})
	r.limits.flows = 3
	v := virtual(t, kernel.UDP, kernel.IPv4, "rr")
	serve(t, r, v, echoUDP(t, kernel.IPv4))
	var clients []*net.UDPConn
	for range 3 {
		c := dialUDP(t, v.Key.AddrPort())
		ask(t, c, "x")
		clients = append(clients, c)
	}
	ask(t, clients[0], "x") // now clients[1] is the oldest
	ask(t, dialUDP(t, v.Key.AddrPort()), "x")
	s := r.services[v.Key]
	for i, want := range []bool{true, false, true} {
		if got := s.listener.flows.find(clients[i].LocalAddr().(*net.UDPAddr).AddrPort()) != nil; got != want {
			t.Errorf("flow %d is there: %v", i, got)
		}
	}
	if n := r.Stats().Shortages[TooManyFlows]; n == 0 {
		t.Error("no shortage")
	}
	if r.Stats().Flows != 3 {
		t.Errorf("%+v", r.Stats())
	}
}

// Without file descriptors a new flow takes the place of the oldest.
func TestUDPFileLimit(t *testing.T) {
	r := newRelay(t, Options{UDPIdle: time.Minute})
	v := virtual(t, kernel.UDP, kernel.IPv4, "rr")
	serve(t, r, v, echoUDP(t, kernel.IPv4))
	taken := r.files.free.Load() - 2
	r.files.take(taken)
	defer r.files.give(taken)
	for range 5 {
		ask(t, dialUDP(t, v.Key.AddrPort()), "x")
	}
	if s := r.Stats(); s.Flows != 2 || s.Shortages[TooManyConnections] != 3 {
		t.Errorf("%+v", s)
	}
}

// Thousands of flows come and go while endpoints change.
func TestUDPChurn(t *testing.T) {
	r := newRelay(t, Options{UDPIdle: 200 * time.Millisecond})
	v := virtual(t, kernel.UDP, kernel.IPv4, "wlc")
	a, b := echoUDP(t, kernel.IPv4), echoUDP(t, kernel.IPv4)
	serve(t, r, v, a, b)
	var all sync.WaitGroup
	answers := make([]int, 8)
	for i := range answers {
		all.Go(func() {
			for range 100 {
				c, err := net.Dial("udp", v.Key.AddrPort().String())
				if err != nil {
					t.Error(err)
					return
				}
				c.SetDeadline(time.Now().Add(time.Second))
				_, err = tryAsk(c.(*net.UDPConn), "hello")
				if err == nil {
					answers[i]++
				} else if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error(err)
				}
				c.Close()
			}
		})
	}
	stop := make(chan struct{})
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		for {
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Millisecond):
				r.Apply([]kernel.Op{remove(target(v, b, 1))})
				r.Apply([]kernel.Op{add(target(v, b, 1))})
			}
		}
	}()
	all.Wait()
	close(stop)
	<-changed
	sum := 0
	for _, n := range answers {
		sum += n
	}
	// A datagram on its way to an endpoint that is removed is lost, as with IPVS.
	if sum < 400 {
		t.Errorf("%d of 800 datagrams were answered", sum)
	}
	eventually(t, "all ended", func() bool { return r.Stats().Flows == 0 })
	for _, o := range r.Counters().Reals {
		if o.Inactive != 0 {
			t.Errorf("%+v", o)
		}
	}
}

package relay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
)

// backend is a TCP server that handles each connection and closes it.
func backend(t testing.TB, f kernel.Family, handle func(*net.TCPConn)) netip.AddrPort {
	t.Helper()
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(vip[f], 0)))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.AcceptTCP()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				handle(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// echo hides the type of the connection from io.Copy, which would keep pipes open.
func echo(c *net.TCPConn) { io.Copy(struct{ io.Writer }{c}, c) }

// named is a server that says its address and then echoes.
func named(t testing.TB, f kernel.Family) netip.AddrPort {
	return backend(t, f, func(c *net.TCPConn) {
		fmt.Fprintln(c, c.LocalAddr())
		echo(c)
	})
}

// closedPort is one that refuses connections.
func closedPort(t testing.TB, f kernel.Family) netip.AddrPort { return closedPorts(t, f, 1)[0] }

func closedPorts(t testing.TB, f kernel.Family, n int) (all []netip.AddrPort) {
	t.Helper()
	for range n {
		s, err := open(kernel.TCP, netip.AddrPortFrom(vip[f], 0))
		if err != nil {
			t.Fatal(err)
		}
		defer s.close() // in the end: all are different
		all = append(all, s.addr())
	}
	return all
}

// silent is a port that answers no SYN, because its queue is full.
func silent(t testing.TB, f kernel.Family) netip.AddrPort {
	t.Helper()
	family, sa := unix.AF_INET, unix.Sockaddr(&unix.SockaddrInet4{Addr: vip[kernel.IPv4].As4()})
	if f == kernel.IPv6 {
		family, sa = unix.AF_INET6, &unix.SockaddrInet6{Addr: vip[f].As16()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = errors.Join(unix.Bind(fd, sa), unix.Listen(fd, 0))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	port := 0
	switch a := name.(type) {
	case *unix.SockaddrInet4:
		port = a.Port
	case *unix.SockaddrInet6:
		port = a.Port
	}
	at := netip.AddrPortFrom(vip[f], uint16(port))
	for {
		c, err := net.DialTimeout("tcp", at.String(), 50*time.Millisecond)
		if err != nil {
			return at
		}
		t.Cleanup(func() { c.Close() })
	}
}

func dial(t testing.TB, to netip.AddrPort) *net.TCPConn {
	t.Helper()
	c, err := net.DialTimeout("tcp", to.String(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c.(*net.TCPConn)
}

// dialFrom is dial from another address of loopback.
func dialFrom(t testing.TB, from string, to netip.AddrPort) *net.TCPConn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Deadline: time.Now().Add(20 * time.Second)}
	c, err := d.DialContext(t.Context(), "tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c.(*net.TCPConn)
}

// who reads the address that a named server says.
func who(t testing.TB, c net.Conn) netip.AddrPort {
	t.Helper()
	var line []byte
	for b := make([]byte, 1); ; line = append(line, b[0]) {
		if _, err := c.Read(b); err != nil {
			t.Fatal(err)
		}
		if b[0] == '\n' {
			return netip.MustParseAddrPort(string(line))
		}
	}
}

// visit connects, reads who answers and closes.
func visit(t testing.TB, to netip.AddrPort) netip.AddrPort {
	t.Helper()
	c := dial(t, to)
	defer c.Close()
	return who(t, c)
}

func say(t testing.TB, c net.Conn, what string) {
	t.Helper()
	if _, err := c.Write([]byte(what)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(what))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != what {
		t.Fatalf("%q, %v; want %q", got, err, what)
	}
}

func wantReset(t testing.TB, c net.Conn) {
	t.Helper()
	if _, err := io.Copy(io.Discard, c); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection ends with %v, want a reset", err)
	}
}

// wantUnreachable connects to a virtual server that no endpoint answers for. The reset may come
// before connect(2) returns, and net.Dial would try again then.
func wantUnreachable(t testing.TB, to netip.AddrPort) {
	t.Helper()
	fd := newSocket(t)
	err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()})
	if err == nil {
		_, err = unix.Read(fd, make([]byte, 1))
	}
	if err != syscall.ECONNRESET {
		t.Errorf("the connection ends with %v, want a reset", err)
	}
}

func TestTCP(t *testing.T) {
	families(t, func(t *testing.T, f kernel.Family) {
		r := newRelay(t, Options{})
		v, at := virtual(t, kernel.TCP, f, "rr"), named(t, f)
		serve(t, r, v, at)
		real := target(v, at, 1)
		c := dial(t, v.Key.Addr)
		if got := who(t, c); got != at {
			t.Errorf("%v answers, want %v", got, at)
		}
		say(t, c, "hello")
		if got := conns(r, real); got != (kernel.Conns{Active: 1}) {
			t.Errorf("connected: %+v", got)
		}
		// Bytes count at once, not when the connection ends.
		name := uint64(len(at.String()) + 1)
		want := kernel.Traffic{Conns: 1, InBytes: 5, OutBytes: name + 5}
		eventually(t, "counted", func() bool { return r.Counters().Total == want })
		counters := r.Counters()
		if len(counters.Virtuals) != 1 || counters.Virtuals[0].Traffic != want || len(counters.Reals) != 1 || counters.Reals[0].Active != 1 {
			t.Errorf("%+v", counters)
		}
		if all := r.Traffic([]kernel.VirtualKey{v.Key, {}}); len(all) != 1 || all[0].Traffic != want || all[0].Key != real.Key {
			t.Errorf("%+v", all)
		}
		c.Close()
		eventually(t, "ended", func() bool { return conns(r, real) == kernel.Conns{} })
	})
}

// After each end of a half-closed connection the other way goes on.
func TestHalfClose(t *testing.T) {
	families(t, func(t *testing.T, f kernel.Family) {
		r := newRelay(t, Options{})
		v := virtual(t, kernel.TCP, f, "rr")
		answers := backend(t, f, func(c *net.TCPConn) { // reads all, then answers
			b, _ := io.ReadAll(c)
			fmt.Fprintf(c, "%d bytes", len(b))
		})
		serve(t, r, v, answers)
		c := dial(t, v.Key.Addr)
		c.Write(make([]byte, 100_000))
		c.CloseWrite()
		if b, err := io.ReadAll(c); string(b) != "100000 bytes" || err != nil {
			t.Errorf("%q, %v", b, err)
		}

		got := make(chan string)
		listens := backend(t, f, func(c *net.TCPConn) { // ends its side, then reads all
			c.CloseWrite()
			b, _ := io.ReadAll(c)
			got <- string(b)
		})
		apply(t, r, remove(target(v, answers, 1)), add(target(v, listens, 1)))
		c = dial(t, v.Key.Addr)
		if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		eventually(t, "counted as inactive", func() bool { return conns(r, target(v, listens, 1)) == kernel.Conns{Inactive: 1} })
		c.Write([]byte("still here"))
		c.CloseWrite()
		if b := <-got; b != "still here" {
			t.Errorf("%q", b)
		}
	})
}

// A half-closed connection ends when it has had no data for a time, and not before.
func TestHalfOpenGuard(t *testing.T) {
	r := newRelay(t, Options{})
	r.limits.halfOpen = 600 * time.Millisecond
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	feed := make(chan string)
	at := backend(t, kernel.IPv4, func(c *net.TCPConn) {
		for s := range feed {
			io.WriteString(c, s)
		}
		io.Copy(io.Discard, c) // never ends its side
		<-t.Context().Done()
	})
	serve(t, r, v, at)
	c := dial(t, v.Key.Addr)
	c.CloseWrite()
	begin := time.Now()
	for i := 0; time.Since(begin) < 2*r.limits.halfOpen; i++ { // data keeps it
		feed <- "x"
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatalf("after %d bytes and %v: %v", i, time.Since(begin), err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	close(feed)
	wantReset(t, c)
}

// Endpoints that refuse cost no time, however many.
func TestRefusedEndpoints(t *testing.T) {
	for _, scheduler := range Schedulers {
		t.Run(scheduler, func(t *testing.T) {
			r := newRelay(t, Options{})
			v, at := persistent(virtual(t, kernel.TCP, kernel.IPv4, scheduler), 100), named(t, kernel.IPv4)
			r.limits.dial = []time.Duration{time.Hour}
			serve(t, r, v, append(closedPorts(t, kernel.IPv4, 3), at)...)
			for range 20 {
				if got := visit(t, v.Key.Addr); got != at {
					t.Errorf("%v answers", got)
				}
			}
			if n := r.Stats().Retries; n > 3 { // then affinity knows the one that answers
				t.Errorf("%d retries", n)
			}
		})
	}
}

// An endpoint that does not answer costs 250 ms, and the client's bytes are not lost.
func TestSilentEndpoint(t *testing.T) {
	families(t, func(t *testing.T, f kernel.Family) {
		r := newRelay(t, Options{})
		v := virtual(t, kernel.TCP, f, "rr")
		live, dead := backend(t, f, echo), silent(t, f)
		serve(t, r, v, live, dead)
		slow := 0
		for range 4 { // a retry takes no other connection's turn
			begin := time.Now()
			c := dial(t, v.Key.Addr)
			say(t, c, "early bytes")
			c.Close()
			if took := time.Since(begin); took >= 250*time.Millisecond {
				slow++
			}
		}
		if retries := r.Stats().Retries; slow < 2 || retries < 2 || retries > 3 {
			t.Errorf("%d slow connections, %d retries of 4 connections", slow, retries)
		}
		if got := conns(r, target(v, dead, 1)); got != (kernel.Conns{}) {
			t.Errorf("the silent endpoint has %+v", got)
		}
	})
}

// With no endpoint that answers, the client's connection is reset: after four tries, also of a
// single endpoint, or at once.
func TestUnreachable(t *testing.T) {
	r := newRelay(t, Options{})
	r.limits.dial = []time.Duration{20 * time.Millisecond, 20 * time.Millisecond, 20 * time.Millisecond, 20 * time.Millisecond}
	dead := silent(t, kernel.IPv4)
	for _, c := range []struct {
		name    string
		reals   []netip.AddrPort
		retries uint64
	}{
		{"silent", []netip.AddrPort{dead}, 4},
		{"closed", closedPorts(t, kernel.IPv4, 2), 2},
		{"both", []netip.AddrPort{dead, closedPort(t, kernel.IPv4)}, 5},
		{"none", nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
			serve(t, r, v, c.reals...)
			before := r.Stats()
			wantUnreachable(t, v.Key.Addr)
			eventually(t, "counted", func() bool { return r.Stats().Unreachable == before.Unreachable+1 })
			// On a busy machine, a refusal may come after the time limit.
			if got := r.Stats().Retries - before.Retries; got < c.retries || got > c.retries+2 {
				t.Errorf("%d tries, want %d", got, c.retries)
			}
		})
	}
	t.Run("many", func(t *testing.T) {
		v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
		serve(t, r, v, closedPorts(t, kernel.IPv4, 3*maxRefused)...)
		before := r.Stats()
		wantUnreachable(t, v.Key.Addr)
		eventually(t, "given up", func() bool { return r.Stats().Unreachable == before.Unreachable+1 })
		if n := r.Stats().Retries - before.Retries; n < maxRefused || n >= maxRefused+4 {
			t.Errorf("%d tries", n)
		}
	})
}

// A connection whose endpoint is being dialed ends with its virtual server.
func TestRemovedWhileDialing(t *testing.T) {
	r := newRelay(t, Options{})
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	dead := silent(t, kernel.IPv4)
	r.limits.dial = []time.Duration{time.Hour}
	serve(t, r, v, dead)
	c := dial(t, v.Key.Addr)
	eventually(t, "dialing", func() bool { return conns(r, target(v, dead, 1)) == kernel.Conns{Inactive: 1} })
	apply(t, r, remove(v))
	wantReset(t, c)
}

func TestDrain(t *testing.T) {
	r := newRelay(t, Options{})
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	a, b := named(t, kernel.IPv4), named(t, kernel.IPv4)
	serve(t, r, v, a)
	c := dial(t, v.Key.Addr)
	who(t, c)
	apply(t, r, add(target(v, b, 1)), change(target(v, a, 0)))
	for range 10 {
		if got := visit(t, v.Key.Addr); got != b {
			t.Errorf("%v answers while it drains", got)
		}
	}
	say(t, c, "still here")
	if got := conns(r, target(v, a, 0)); got != (kernel.Conns{Active: 1}) {
		t.Errorf("%+v", got)
	}
	apply(t, r, change(target(v, a, 1)))
	say(t, c, "and back")
	apply(t, r, remove(target(v, a, 1)))
	wantReset(t, c)
	// The same address is another real server.
	apply(t, r, add(target(v, a, 1)))
	if got := conns(r, target(v, a, 1)); got != (kernel.Conns{}) {
		t.Errorf("added again: %+v", got)
	}
}

func TestRemoveVirtual(t *testing.T) {
	r := newRelay(t, Options{})
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	serve(t, r, v, backend(t, kernel.IPv4, echo))
	c := dial(t, v.Key.Addr)
	say(t, c, "hello")
	apply(t, r, remove(v))
	wantReset(t, c)
	if _, err := net.Dial("tcp", v.Key.Addr.String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v", err)
	}
	if got := r.Counters(); got.Total.Conns != 1 || len(got.Virtuals) != 0 {
		t.Errorf("%+v", got)
	}
	apply(t, r, add(v)) // at the same port
}

func TestLinger(t *testing.T) {
	r := newRelay(t, Options{Linger: time.Second})
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	serve(t, r, v, backend(t, kernel.IPv4, echo))
	c := dial(t, v.Key.Addr)
	say(t, c, "hello")
	begin := time.Now()
	apply(t, r, remove(v))
	say(t, c, "still here")
	wantReset(t, c)
	if took := time.Since(begin); took < time.Second {
		t.Errorf("reset after %v", took)
	}
}

func TestShutdown(t *testing.T) {
	r := newRelay(t, Options{})
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	serve(t, r, v, backend(t, kernel.IPv4, echo))
	stays, goes := dial(t, v.Key.Addr), dial(t, v.Key.Addr)
	say(t, stays, "hello")
	say(t, goes, "hello")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Shutdown(ctx)
	}()
	eventually(t, "closed", func() bool {
		c, err := net.Dial("tcp", v.Key.Addr.String())
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	say(t, stays, "still here")
	goes.Close()
	eventually(t, "ended", func() bool { return r.Stats().Streams == 1 })
	cancel()
	<-done
	wantReset(t, stays)
}

// Shutdown ends by itself when no connection is left.
func TestShutdownIdle(t *testing.T) {
	r := newRelay(t, Options{})
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	serve(t, r, v, backend(t, kernel.IPv4, echo))
	c := dial(t, v.Key.Addr)
	say(t, c, "hello")
	time.AfterFunc(50*time.Millisecond, func() { c.Close() })
	r.Shutdown(t.Context())
}

// A reset of one side is a reset for the other, not an end.
func TestReset(t *testing.T) {
	r := newRelay(t, Options{})
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	got := make(chan error, 1)
	at := backend(t, kernel.IPv4, func(c *net.TCPConn) {
		b := make([]byte, 1)
		c.Read(b)
		if b[0] == 'r' {
			c.SetLinger(0)
			return
		}
		_, err := io.Copy(io.Discard, c)
		got <- err
	})
	serve(t, r, v, at)
	c := dial(t, v.Key.Addr)
	c.Write([]byte("r"))
	wantReset(t, c)
	c = dial(t, v.Key.Addr)
	c.Write([]byte("w"))
	eventually(t, "counted", func() bool { return r.Counters().Total.InBytes == 2 })
	reset(c)
	if err := <-got; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v", err)
	}
}

// The kernel reports a reset once. If the way there has noticed it, the way back reads an end, which
// must not become one for the client: it would take half an answer for a whole one.
func TestResetIsNoEnd(t *testing.T) {
	r := newRelay(t, Options{})
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	at := backend(t, kernel.IPv4, func(c *net.TCPConn) {
		c.Read(make([]byte, 1))
		io.WriteString(c, "half an answer")
		c.SetLinger(0)
	})
	serve(t, r, v, at)
	for range 100 {
		c := dial(t, v.Key.Addr)
		go func() {
			for b := make([]byte, 10_000); ; {
				if _, err := c.Write(b); err != nil {
					return
				}
			}
		}()
		_, err := io.Copy(io.Discard, struct{ io.Reader }{c})
		// The writer may have been told of the reset, and then this is no error. But the connection is
		// closed, not half closed.
		if err == nil && !isClosed(c) {
			t.Error("the connection ends without a reset")
		}
		c.Close()
	}
}

// A server that answers early and closes is heard, though the client still sends.
func TestEarlyAnswer(t *testing.T) {
	r := newRelay(t, Options{})
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	at := backend(t, kernel.IPv4, func(c *net.TCPConn) {
		c.Read(make([]byte, 1))
		io.WriteString(c, "too large")
		c.CloseWrite()
		io.CopyN(io.Discard, c, 1<<20)
	})
	serve(t, r, v, at)
	c := dial(t, v.Key.Addr)
	go func() {
		for b := make([]byte, 1<<16); ; {
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	}()
	b := make([]byte, 9)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "too large" {
		t.Errorf("%q, %v", b, err)
	}
}

// Whatever a client sends arrives, through pipes and through buffers.
func TestContent(t *testing.T) {
	for _, how := range []string{"pipes", "buffers"} {
		t.Run(how, func(t *testing.T) {
			r := newRelay(t, Options{})
			if how == "buffers" {
				r.pipes.disable()
			}
			v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
			serve(t, r, v, backend(t, kernel.IPv4, echo))
			var all sync.WaitGroup
			for i := range 4 {
				c := dial(t, v.Key.Addr)
				all.Go(func() {
					random := rand.New(rand.NewPCG(1, uint64(i)))
					sent, got := sha256.New(), sha256.New()
					all.Go(func() {
						b := make([]byte, 1<<18)
						for n := 0; n < 2<<20; {
							part := b[:1+random.IntN(len(b))]
							for i := range part {
								part[i] = byte(n + i*7)
							}
							sent.Write(part)
							if _, err := c.Write(part); err != nil {
								t.Error(err)
								return
							}
							n += len(part)
						}
						c.CloseWrite()
					})
					if _, err := io.Copy(got, c); err != nil {
						t.Error(err)
					}
					if !bytes.Equal(got.Sum(nil), sent.Sum(nil)) {
						t.Error("the content has changed")
					}
				})
			}
			all.Wait()
			total := r.Counters().Total
			if total.InBytes != total.OutBytes || total.InBytes < 8<<20 {
				t.Errorf("%+v", total)
			}
		})
	}
}

// Receivers that take nothing hold pipes, of which there is a limit; other connections go on.
func TestStalledReceivers(t *testing.T) {
	r := newRelay(t, Options{})
	r.pipes.left.Store(4)
	defer r.pipes.left.Store(int64(maxPipes(r.o.MaxFiles)))
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	serve(t, r, v, backend(t, kernel.IPv4, echo))
	for range 8 {
		c := dial(t, v.Key.Addr)
		c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		for b := make([]byte, 1<<20); ; { // reads nothing, so that all buffers on the way fill up
			if _, err := c.Write(b); err != nil {
				break
			}
		}
	}
	say(t, dial(t, v.Key.Addr), "hello")
	r.Close()
}

// With affinity, a client's connections have one endpoint, until it drains.
func TestPersistent(t *testing.T) {
	r := newRelay(t, Options{})
	v := persistent(virtual(t, kernel.TCP, kernel.IPv4, "rr"), 100)
	a, b := named(t, kernel.IPv4), named(t, kernel.IPv4)
	serve(t, r, v, a, b)
	visitFrom := func(from string) netip.AddrPort {
		c := dialFrom(t, from, v.Key.Addr)
		defer c.Close()
		return who(t, c)
	}
	one, other := visitFrom("127.0.1.1"), visitFrom("127.0.1.2")
	if one == other {
		t.Error("two clients have one endpoint")
	}
	for range 5 {
		if visitFrom("127.0.1.1") != one || visitFrom("127.0.1.2") != other {
			t.Error("a client moved")
		}
	}
	if got := conns(r, target(v, a, 1)).Persist; got != 1 {
		t.Errorf("%d templates", got)
	}
	apply(t, r, change(target(v, one, 0)))
	if visitFrom("127.0.1.1") != other {
		t.Error("a new connection to an endpoint that drains")
	}
	apply(t, r, change(target(v, one, 1)))
	if visitFrom("127.0.1.1") != other {
		t.Error("the client moved back")
	}
}

// Connections come and go while everything changes. Each is served whole or fails visibly.
func TestChurn(t *testing.T) {
	r := newRelay(t, Options{Linger: 20 * time.Millisecond})
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	reals := []kernel.Real{target(v, named(t, kernel.IPv4), 1), target(v, named(t, kernel.IPv4), 1), target(v, closedPort(t, kernel.IPv4), 1)}
	serve(t, r, v, reals[0].Key.Addr)
	stop := make(chan struct{})
	var served, failed atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			want := make([]byte, 10_000)
			for {
				select {
				case <-stop:
					return
				default:
				}
				c, err := net.Dial("tcp", v.Key.Addr.String())
				if err != nil {
					failed.Add(1)
					continue
				}
				c.SetDeadline(time.Now().Add(5 * time.Second))
				_, err = c.Write(want)
				err = errors.Join(err, c.(*net.TCPConn).CloseWrite())
				got, err2 := io.ReadAll(c) // the kernel reports a reset once only
				err = errors.Join(err, err2)
				switch {
				case err == nil && len(got) > len(want):
					served.Add(1)
				case err == nil:
					t.Errorf("an end after %d bytes", len(got))
				case errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ENOTCONN):
					failed.Add(1)
				default:
					t.Error(err)
				}
				c.Close()
			}
		})
	}
	random := rand.New(rand.NewPCG(1, 2))
	for begin := time.Now(); time.Since(begin) < time.Second; time.Sleep(time.Millisecond) {
		real := reals[random.IntN(len(reals))]
		real.Weight = uint32(random.IntN(3))
		switch random.IntN(12) {
		case 0:
			r.Apply([]kernel.Op{remove(v)})
			r.Apply([]kernel.Op{add(v), add(reals[0]), add(reals[1])})
		case 1:
			r.SetPortals(map[kernel.VirtualKey]netip.AddrPort{v.Key: netip.AddrPortFrom(vip[kernel.IPv4], 0)})
			r.SetPortals(nil)
		case 2, 3:
			r.Apply([]kernel.Op{remove(real)})
		case 4:
			v.Scheduler = Schedulers[random.IntN(len(Schedulers))]
			v.Flags ^= kernel.FlagPersistent
			v.Timeout = 1
			r.Apply([]kernel.Op{change(v)})
		case 5, 6, 7:
			r.Apply([]kernel.Op{add(real)})
		case 8:
			r.Counters()
			r.Read()
			r.Traffic([]kernel.VirtualKey{v.Key})
		default:
			r.Apply([]kernel.Op{change(real)})
		}
	}
	close(stop)
	all.Wait()
	t.Logf("%d served, %d failed", served.Load(), failed.Load())
	if served.Load() == 0 {
		t.Error("none was served")
	}
	eventually(t, "all ended", func() bool { return r.Stats().Streams == 0 })
	for _, o := range r.Counters().Reals {
		if o.Active != 0 || o.Inactive != 0 {
			t.Errorf("%+v", o)
		}
	}
}

func TestThousandsOfConnections(t *testing.T) {
	n := 2000
	if testing.Short() {
		n = 300
	}
	r := newRelay(t, Options{})
	v := virtual(t, kernel.TCP, kernel.IPv4, "wlc")
	serve(t, r, v, named(t, kernel.IPv4), named(t, kernel.IPv4), named(t, kernel.IPv4))
	begin := time.Now()
	var left atomic.Int64
	left.Store(int64(n))
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				c, err := net.Dial("tcp", v.Key.Addr.String())
				if err != nil {
					t.Error(err)
					return
				}
				c.SetDeadline(time.Now().Add(10 * time.Second))
				c.Write([]byte("x"))
				c.(*net.TCPConn).CloseWrite()
				if _, err := io.ReadAll(c); err != nil {
					t.Error(err)
				}
				c.Close()
			}
		})
	}
	all.Wait()
	t.Logf("%d connections in %v", n, time.Since(begin))
	if got := r.Counters(); got.Total.Conns != uint64(n) || got.Total.InBytes != uint64(n) {
		t.Errorf("%+v", got.Total)
	}
	eventually(t, "all ended", func() bool { return r.Stats().Streams == 0 })
	for _, o := range r.Counters().Reals {
		if o.Active != 0 || o.Inactive != 0 {
			t.Errorf("%+v", o)
		}
	}
}

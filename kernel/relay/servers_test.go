package relay

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
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

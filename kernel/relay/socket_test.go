package relay

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
)

// listenersOf returns what a relay gives to systemd's store.
func listenersOf(t testing.TB, r *Relay) (all []*os.File) {
	t.Helper()
	for k := range r.Listening() {
		f, err := r.File(k)
		if f == nil || err != nil {
			t.Fatal(k, err)
		}
		all = append(all, f)
	}
	return all
}

// copies duplicates files under their names.
func copies(t testing.TB, files []*os.File) (all []*os.File) {
	t.Helper()
	for _, f := range files {
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		copied := os.NewFile(uintptr(fd), f.Name())
		t.Cleanup(func() { copied.Close() })
		all = append(all, copied)
	}
	return all
}

// A listener that is handed over loses no connection that waits in it, and keeps its socket.
func TestHandOver(t *testing.T) {
	families(t, func(t *testing.T, f kernel.Family) {
		old := newRelay(t, Options{})
		tcp, udp := virtual(t, kernel.TCP, f, "rr"), virtual(t, kernel.UDP, f, "rr")
		gone := virtual(t, kernel.TCP, f, "rr")
		at, atUDP := named(t, f), echoUDP(t, f)
		serve(t, old, tcp, at)
		serve(t, old, udp, atUDP)
		serve(t, old, gone)
		visit(t, tcp.Key.AddrPort())
		files := listenersOf(t, old)
		if len(files) != 3 {
			t.Fatal(files)
		}
		for _, f := range files {
			f.Fd() // as sendmsg(2) to systemd needs it; the old relay must not block for that
		}
		visit(t, tcp.Key.AddrPort())
		old.Shutdown(t.Context())

		waits, asks := dial(t, tcp.Key.AddrPort()), dialUDP(t, udp.Key.AddrPort())
		waits.Write([]byte("x"))
		asks.Write([]byte("x"))
		other, err := os.Open("/dev/null")
		if err != nil {
			t.Fatal(err)
		}
		// One that ends before its first plan leaves them as they are.
		kept := copies(t, files) // systemd's
		newRelay(t, Options{Inherited: files}).Close()
		files = copies(t, kept)
		r := newRelay(t, Options{Inherited: append(files, other)})
		if len(r.Listening()) != 3 || r.Listening()[tcp.Key] != tcp.Key.AddrPort() {
			t.Errorf("%v", r.Listening())
		}
		if err := other.Close(); err != nil {
			t.Errorf("a file of another name was taken: %v", err)
		}
		serve(t, r, tcp, at)
		serve(t, r, udp, atUDP)
		r.CloseUnused()
		if got := who(t, waits); got != at {
			t.Errorf("%v", got)
		}
		if n, err := asks.Read(make([]byte, 100)); err != nil || n != len(atUDP.String())+2 {
			t.Errorf("%d, %v", n, err)
		}
		if c, err := net.Dial("tcp", gone.Key.AddrPort().String()); err == nil {
			c.Close()
			t.Error("an unused listener is open, in its duplicate")
		}
	})
}

// A virtual server that is removed refuses connections, though systemd still has its listener. That
// is of no use to the next process.
func TestRemoveHandedOver(t *testing.T) {
	r := newRelay(t, Options{})
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	at := named(t, kernel.IPv4)
	serve(t, r, v, at)
	files := listenersOf(t, r)
	if len(files) != 1 {
		t.Fatal(files)
	}
	apply(t, r, remove(v))
	if c, err := net.Dial("tcp", v.Key.AddrPort().String()); err == nil {
		c.Close()
		t.Error("the listener is open")
	}
	serve(t, r, v, at) // the port is free
	visit(t, v.Key.AddrPort())
	if next := newRelay(t, Options{Inherited: files}); len(next.Listening()) != 0 {
		t.Errorf("%v", next.Listening())
	}
}

// Files that are not what their name says are closed, and the virtual server binds its own listener.
func TestInheritNonsense(t *testing.T) {
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	u := virtual(t, kernel.UDP, kernel.IPv4, "rr")
	moved := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	for moved.Key == v.Key { // the kernel may give a port that was closed
		moved = virtual(t, kernel.TCP, kernel.IPv4, "rr")
	}
	elsewhere, err := open(kernel.TCP, netip.AddrPortFrom(vip[kernel.IPv4], 0))
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.close()
	file := func(s socket, name string) *os.File {
		f, err := s.duplicate(name)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := newRelay(t, Options{Inherited: []*os.File{
		file(elsewhere, FileName(u.Key)),
		file(elsewhere, FileName(moved.Key)),
		file(elsewhere, FileName(moved.Key)), // twice
		os.NewFile(uintptr(null), FileName(v.Key)),
	}})
	if l := r.Listening(); len(l) != 1 || l[moved.Key] != elsewhere.addr() {
		t.Errorf("%v", l)
	}
	serve(t, r, v)
	serve(t, r, u)
	serve(t, r, moved)
	for _, k := range []kernel.VirtualKey{v.Key, u.Key, moved.Key} {
		if got := r.Listening()[k]; got != k.AddrPort() {
			t.Errorf("%v listens on %v", k, got)
		}
	}
}

// A connection is found dead within a minute: both sides have keepalive.
func TestKeepAlive(t *testing.T) {
	if keepAlive.Idle+time.Duration(keepAlive.Count)*keepAlive.Interval != time.Minute {
		t.Errorf("%+v", keepAlive)
	}
}

func FuzzFileName(f *testing.F) {
	f.Add("relay-tcp-10.96.0.1-80")
	f.Add("relay-udp-fd00_96__1-53")
	f.Add("relay-sctp-_-0")
	f.Add("connection")
	f.Fuzz(func(t *testing.T, name string) {
		k, ok := ParseFileName(name)
		if !ok {
			return
		}
		if FileName(k) != name || strings.ContainsAny(name, ":\n") || len(name) > 255 {
			t.Errorf("%q is %v", name, k)
		}
	})
}

func TestFileName(t *testing.T) {
	for _, at := range []string{"10.96.0.1:80", "[fd00:96::1]:53", "[::1]:65535"} {
		for _, p := range []kernel.Proto{kernel.TCP, kernel.UDP} {
			k := kernel.VirtualAt(netip.MustParseAddrPort(at), p)
			if got, ok := ParseFileName(FileName(k)); !ok || got != k {
				t.Errorf("%v: %q, %v", k, FileName(k), got)
			}
		}
	}
	for _, name := range []string{"", "relay-", "relay-tcp-10.96.0.1", "relay-TCP-10.96.0.1-80", "relay-tcp-10.96.0.1-080", "relay-tcp-x-80", "relay-tcp-fd00_0__1-80", "relay-tcp-fe80__1%eth0-80"} {
		if k, ok := ParseFileName(name); ok {
			t.Errorf("%q is %v", name, k)
		}
	}
	if got := fmt.Sprint(FileName(kernel.VirtualAt(netip.MustParseAddrPort("[fd00::1]:443"), kernel.TCP))); got != "relay-tcp-fd00__1-443" {
		t.Error(got)
	}
}

package relay

import (
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// everywhere makes a virtual server at a port at which another program listens on all addresses, as sshd does.
func everywhere(t *testing.T, p kernel.Proto, f kernel.Family) (v kernel.Virtual, other io.Closer) {
	t.Helper()
	var at net.Addr
	wildcard := netip.AddrPortFrom(netip.IPv6Unspecified(), 0).String() // a port that is free on all addresses
	if p == kernel.UDP {
		c, err := net.ListenPacket("udp", wildcard)
		if err != nil {
			t.Fatal(err)
		}
		other, at = c, c.LocalAddr()
	} else {
		l, err := net.Listen("tcp", wildcard)
		if err != nil {
			t.Fatal(err)
		}
		other, at = l, l.Addr()
	}
	t.Cleanup(func() { other.Close() })
	v = kernel.Virtual{Key: kernel.VirtualKey{Addr: vip[f], Port: netip.MustParseAddrPort(at.String()).Port(), Proto: p}, Scheduler: "rr", Netmask: uint8(f.Bits())}
	return v, other
}

func keysOf(all ...kernel.Virtual) (keys []kernel.VirtualKey) {
	for _, v := range all {
		keys = append(keys, v.Key)
	}
	slices.SortFunc(keys, kernel.VirtualKey.Compare)
	return keys
}

// A virtual server whose port another program has, on all addresses, listens on another port of its address. The others
// listen on their own.
func TestPortals(t *testing.T) {
	families(t, func(t *testing.T, f kernel.Family) {
		r := newRelay(t, Options{})
		free := virtual(t, kernel.TCP, f, "rr")
		v, _ := everywhere(t, kernel.TCP, f)
		u, _ := everywhere(t, kernel.UDP, f)
		ports := Ports{40000, 40099}
		all := keysOf(free, v, u)
		taken := r.Reserve(all)
		if !slices.Equal(taken, keysOf(v, u)) {
			t.Fatalf("taken: %v", taken)
		}
		for _, k := range taken {
			if err := r.OpenPortal(k, ports); err != nil {
				t.Fatal(err)
			}
		}
		portals := r.Portals()
		for _, k := range taken {
			if at := portals[k]; at.Addr() != k.Addr || !ports.has(at.Port()) || r.Listening()[k] != at {
				t.Errorf("%v listens on %v", k, at)
			}
		}
		serve(t, r, free, named(t, f))
		serve(t, r, v, named(t, f))
		serve(t, r, u, echoUDP(t, f))
		visit(t, free.Key.AddrPort())
		visit(t, portals[v.Key])
		ask(t, dialUDP(t, portals[u.Key]), "x")
		if again := r.Reserve(all); again != nil || !maps.Equal(r.Portals(), portals) {
			t.Errorf("again: %v, %v", again, r.Portals())
		}

		// The next process finds the same ports: its listeners are those of the last one, or else begin at the same place.
		files := listenersOf(t, r)
		next := newRelay(t, Options{Inherited: copies(t, files)})
		for _, f := range files {
			f.Close()
		}
		for _, k := range next.Reserve(all) {
			if err := next.OpenPortal(k, ports); err != nil {
				t.Fatal(err)
			}
		}
		if !maps.Equal(next.Portals(), portals) {
			t.Errorf("the next process has %v, want %v", next.Portals(), portals)
		}

		// What is no longer served is given up.
		if errs := r.Apply([]kernel.Op{remove(v), remove(u), remove(free)}); errs != nil {
			t.Fatal(errs)
		}
		r.Reserve(nil)
		if left := r.Portals(); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// A range without a free port is an error. A listener whose virtual server is never added is closed.
func TestPortalsWithoutAPort(t *testing.T) {
	r := newRelay(t, Options{})
	v, _ := everywhere(t, kernel.TCP, kernel.IPv4)
	other, _ := everywhere(t, kernel.TCP, kernel.IPv4)
	if err := r.OpenPortal(v.Key, Ports{other.Key.Port, other.Key.Port}); err == nil {
		t.Errorf("a portal at %v", r.Portals())
	}
	if err := r.OpenPortal(v.Key, Ports{}); err != nil {
		t.Fatal(err)
	}
	at := r.Portals()[v.Key]
	r.Reserve(keysOf(other))
	if c, err := net.Dial("tcp", at.String()); err == nil {
		c.Close()
		t.Errorf("%v is still open", at)
	}
}

// A portal ends with its virtual server. One that comes back when the other program has ended listens on its own port.
func TestPortalOfAServerThatComesBack(t *testing.T) {
	r := newRelay(t, Options{})
	v, other := everywhere(t, kernel.TCP, kernel.IPv4)
	for _, k := range r.Reserve(keysOf(v)) {
		if err := r.OpenPortal(k, Ports{}); err != nil {
			t.Fatal(err)
		}
	}
	at, ok := r.Portals()[v.Key]
	if !ok {
		t.Fatal("no portal")
	}
	serve(t, r, v, named(t, kernel.IPv4))
	apply(t, r, remove(v))
	other.Close()
	// Another program has the portal's port, too.
	taken, err := net.Listen("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if again := r.Reserve(keysOf(v)); again != nil || len(r.Portals()) > 0 {
		t.Fatalf("taken %v, portals %v", again, r.Portals())
	}
	serve(t, r, v, named(t, kernel.IPv4))
	visit(t, v.Key.AddrPort())
}

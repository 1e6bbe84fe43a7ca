package relay

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
)

// newRelay makes a relay that is closed after the test, and checks then that nothing is left of it.
func newRelay(t testing.TB, o Options) *Relay {
	t.Helper()
	before := openFiles(t)
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	all := r.files.free.Load() + int64(len(r.inherited))
	pipes := r.pipes.left.Load()
	t.Cleanup(func() {
		r.Close()
		if free := r.files.free.Load(); free != all {
			t.Errorf("%d file descriptors are free after Close, %d before", free, all)
		}
		if left := r.pipes.left.Load(); left != pipes {
			t.Errorf("%d pipes are free after Close, %d before", left, pipes)
		}
		s := r.Stats()
		if s.Streams != 0 || s.Flows != 0 {
			t.Errorf("after Close: %+v", s)
		}
		if now := openFiles(t); now > before+8 { // the runtime's own, and those of servers
			t.Errorf("%d open files after Close, %d before", now, before)
		}
	})
	return r
}

func openFiles(t testing.TB) int {
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(d)
}

// vip is where tests listen: loopback has all of 127.0.0.0/8.
var vip = map[kernel.Family]netip.Addr{kernel.IPv4: netip.MustParseAddr("127.96.0.1"), kernel.IPv6: netip.IPv6Loopback()}

// families runs a test for both.
func families(t *testing.T, test func(*testing.T, kernel.Family)) {
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		t.Run(f.String(), func(t *testing.T) {
			if l, err := net.Listen("tcp", netip.AddrPortFrom(vip[f], 0).String()); err != nil {
				t.Skipf("no %v: %v", f, err)
			} else {
				l.Close()
			}
			test(t, f)
		})
	}
}

var lastPort atomic.Uint32

// virtual makes a virtual server at a free port. The kernel does not choose from these, so no other socket gets it meanwhile.
func virtual(t testing.TB, p kernel.Proto, f kernel.Family, scheduler string) kernel.Virtual {
	t.Helper()
	s, err := open(p, netip.AddrPortFrom(vip[f], uint16(20000+lastPort.Add(1)%10000)))
	for errors.Is(err, syscall.EADDRINUSE) {
		s, err = open(p, netip.AddrPortFrom(vip[f], uint16(20000+lastPort.Add(1)%10000)))
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	return kernel.Virtual{Key: kernel.VirtualAt(s.addr(), p), Scheduler: scheduler, Netmask: uint8(f.Bits())}
}

func persistent(v kernel.Virtual, seconds uint32) kernel.Virtual {
	v.Flags |= kernel.FlagPersistent
	v.Timeout = seconds
	return v
}

func target(v kernel.Virtual, at netip.AddrPort, weight uint32) kernel.Real {
	return kernel.Real{Key: kernel.RealKey{Virtual: v.Key, Addr: at}, Weight: weight}
}

func add(o kernel.Object) kernel.Op    { return kernel.Op{Verb: kernel.Add, Object: o} }
func change(o kernel.Object) kernel.Op { return kernel.Op{Verb: kernel.Change, Object: o, Was: o} }
func remove(o kernel.Object) kernel.Op { return kernel.Op{Verb: kernel.Remove, Object: o, Was: o} }

func apply(t testing.TB, r *Relay, ops ...kernel.Op) {
	t.Helper()
	if err := errors.Join(r.Apply(ops)...); err != nil {
		t.Fatal(err)
	}
}

// serve adds a virtual server with real servers of weight 1.
func serve(t testing.TB, r *Relay, v kernel.Virtual, at ...netip.AddrPort) {
	t.Helper()
	ops := []kernel.Op{add(v)}
	for _, a := range at {
		ops = append(ops, add(target(v, a, 1)))
	}
	apply(t, r, ops...)
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after 10 s: not %s", what)
		}
	}
}

// conns returns the connections of a real server.
func conns(r *Relay, o kernel.Real) kernel.Conns {
	reals, conns := r.Reals([]kernel.VirtualKey{o.Key.Virtual})
	for i, have := range reals {
		if have.Key == o.Key {
			return conns[i]
		}
	}
	return kernel.Conns{}
}

func TestRefused(t *testing.T) {
	r := newRelay(t, Options{})
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	apply(t, r, add(v))
	other := func(edit func(*kernel.Virtual)) kernel.Virtual {
		v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
		edit(&v)
		return v
	}
	at := netip.MustParseAddrPort("127.0.0.1:80")
	for _, c := range []struct {
		op   kernel.Op
		want syscall.Errno
		says string
	}{
		{add(v), syscall.EEXIST, "already"},
		{add(other(func(v *kernel.Virtual) { v.Key.Proto = kernel.SCTP })), syscall.EPROTONOSUPPORT, "does not relay SCTP"},
		{add(other(func(v *kernel.Virtual) { v.Scheduler = "mh" })), syscall.ENOENT, `scheduler "mh"`},
		{change(other(func(v *kernel.Virtual) {})), syscall.ESRCH, "no such virtual server"},
		{add(other(func(v *kernel.Virtual) { v.Flags = kernel.FlagOnePacket })), syscall.EOPNOTSUPP, "each packet"},
		{add(other(func(v *kernel.Virtual) { v.Netmask = 33 })), syscall.EINVAL, "netmask"},
		{add(other(func(v *kernel.Virtual) { v.Key.Port = 0 })), syscall.EINVAL, "port"},
		{add(other(func(v *kernel.Virtual) { v.Key.Addr = netip.IPv4Unspecified() })), syscall.EINVAL, "address"},
		{remove(target(v, at, 1)), syscall.ENOENT, "no such real server"},
		{add(target(v, netip.MustParseAddrPort("[fd00::1]:80"), 1)), syscall.EINVAL, "family"},
		{add(target(v, netip.MustParseAddrPort("224.0.0.1:80"), 1)), syscall.EINVAL, "unicast"},
		{add(target(v, netip.MustParseAddrPort("10.0.0.1:0"), 1)), syscall.EINVAL, "port"},
		{add(target(v, at, 1<<31)), syscall.ERANGE, "largest weight"},
		{add(kernel.Real{Key: target(v, at, 1).Key, Forward: kernel.Tunnel}), syscall.EOPNOTSUPP, "masquerading"},
	} {
		errs := r.Apply([]kernel.Op{c.op})
		if len(errs) != 1 || !errors.Is(errs[0], c.want) || !strings.Contains(errs[0].Error(), c.says) {
			t.Errorf("%v: %v, want %q, %v", c.op, errs, c.says, c.want)
		}
	}
	if errs := r.Apply([]kernel.Op{add(kernel.Link{Name: "x"})}); len(errs) != 1 || errs[0] == nil {
		t.Error("a link was added")
	}
	all := r.Read()
	if len(all.Virtuals) != 1 || len(all.Reals) != 0 {
		t.Errorf("%+v", all)
	}
}

// An op that fails keeps none of the others from being carried out.
func TestApplyContinues(t *testing.T) {
	r := newRelay(t, Options{})
	a, b := virtual(t, kernel.TCP, kernel.IPv4, "rr"), virtual(t, kernel.UDP, kernel.IPv4, "rr")
	errs := r.Apply([]kernel.Op{add(a), add(a), add(b)})
	if len(errs) != 3 || errs[0] != nil || errs[1] == nil || errs[2] != nil {
		t.Errorf("%v", errs)
	}
	if len(r.Read().Virtuals) != 2 {
		t.Errorf("%+v", r.Read())
	}
}

// An address that another program listens on, and one that this node does not have.
func TestListen(t *testing.T) {
	families(t, func(t *testing.T, f kernel.Family) {
		r := newRelay(t, Options{})
		l, err := net.Listen("tcp", netip.AddrPortFrom(vip[f], 0).String())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		v := kernel.Virtual{Key: kernel.VirtualAt(l.Addr().(*net.TCPAddr).AddrPort(), kernel.TCP), Scheduler: "rr", Netmask: uint8(f.Bits())}
		errs := r.Apply([]kernel.Op{add(v)})
		if len(errs) != 1 || !errors.Is(errs[0], syscall.EADDRINUSE) {
			t.Errorf("%v", errs)
		}
		for _, p := range []kernel.Proto{kernel.TCP, kernel.UDP} {
			v := virtual(t, p, f, "rr")
			foreign := map[kernel.Family]string{kernel.IPv4: "192.0.2.1", kernel.IPv6: "2001:db8::1"}[f]
			v.Key.Addr = netip.MustParseAddr(foreign)
			apply(t, r, add(v))
			if got := r.Listening()[v.Key]; got != v.Key.AddrPort() {
				t.Errorf("%v listens on %v", v.Key, got)
			}
		}
	})
}

func TestScheduler(t *testing.T) {
	r := newRelay(t, Options{})
	var missing *kernel.MissingError
	if err := r.Scheduler("wlc"); err != nil {
		t.Error(err)
	}
	if err := r.Scheduler("mh"); !errors.As(err, &missing) || missing.Hint == "" {
		t.Errorf("%v", err)
	}
}

func TestVerify(t *testing.T) {
	r := newRelay(t, Options{})
	a, b := virtual(t, kernel.TCP, kernel.IPv4, "rr"), virtual(t, kernel.UDP, kernel.IPv4, "rr")
	serve(t, r, a, netip.MustParseAddrPort("127.0.0.1:1"))
	serve(t, r, b)
	all := r.Read()
	known := kernel.State{Virtuals: all.Virtuals, Reals: kernel.RealsOf(all.Reals)}
	everything := func(kernel.VirtualKey) bool { return true }
	same := func() [3]bool {
		return [3]bool{r.VerifyVirtuals(&known), r.VerifyReals(&known, everything), r.QuickCheck(&known)}
	}
	if got := same(); got != [3]bool{true, true, true} {
		t.Errorf("as known: %v", got)
	}
	apply(t, r, change(target(a, netip.MustParseAddrPort("127.0.0.1:1"), 7)))
	if got := same(); got != [3]bool{true, false, true} {
		t.Errorf("weight changed: %v", got)
	}
	apply(t, r, remove(b))
	if got := same(); got != [3]bool{false, false, false} {
		t.Errorf("virtual server removed: %v", got)
	}
}

func TestClosed(t *testing.T) {
	r := newRelay(t, Options{})
	r.Close()
	errs := r.Apply([]kernel.Op{add(virtual(t, kernel.TCP, kernel.IPv4, "rr"))})
	if len(errs) != 1 || !errors.Is(errs[0], net.ErrClosed) {
		t.Errorf("%v", errs)
	}
	if err := r.OpenPortal(kernel.VirtualKey{}, Ports{}); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

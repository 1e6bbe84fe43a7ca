package relay

import (
	"errors"
	"net/netip"
	"os"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
)

// Any ops lead the relay and the fake kernel to the same state, with the same errors.
func TestSameAsFake(t *testing.T) {
	host := t
	rapid.Check(t, func(t *rapid.T) {
		r, err := New(Options{MaxFiles: 4096})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		model := fake.New(kernel.DefaultNames, kernel.Node{}, kernel.State{})
		model.Schedulers = map[string]bool{}
		for _, name := range kernel.RelaySchedulers {
			model.Schedulers[name] = true
		}
		t.Repeat(map[string]func(*rapid.T){
			"op": func(t *rapid.T) {
				op := kernel.Op{Verb: kernel.Verb(rapid.IntRange(0, 2).Draw(t, "verb")), Object: drawObject(t)}
				got := errnoOf(errors.Join(r.Apply([]kernel.Op{op})...))
				want := errnoOf(model.Apply(host.Context(), kernel.Plan{Ops: []kernel.Op{op}}))
				if got != want {
					t.Fatalf("%v: %v, want %v", op, got, want)
				}
			},
			"": func(t *rapid.T) {
				all := r.Read()
				got := kernel.State{Virtuals: all.Virtuals, Reals: kernel.RealsOf(all.Reals)}
				state := model.State()
				want := kernel.State{Virtuals: state.Virtuals, Reals: state.Reals}
				if got.String() != want.String() {
					t.Fatalf("state:\n%s\nwant:\n%s", got, want)
				}
				if !r.VerifyVirtuals(&want) || !r.VerifyReals(&want, func(kernel.VirtualKey) bool { return true }) || !r.QuickCheck(&want) {
					t.Fatal("not verified")
				}
				if len(r.Listening()) != len(want.Virtuals) {
					t.Fatalf("listens on %v", r.Listening())
				}
			},
		})
	})
}

// nowhere has an address of each family that no node has, and no other process listens on.
var nowhere = [...]netip.Addr{
	netip.AddrFrom4([4]byte{198, 18, byte(os.Getpid() >> 8), byte(os.Getpid())}),
	netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 14: byte(os.Getpid() >> 8), 15: byte(os.Getpid())}),
}

// drawObject draws one of a few virtual servers, at addresses that no node has, and real servers.
func drawObject(t *rapid.T) kernel.Object {
	addr := rapid.SampledFrom([]netip.AddrPort{
		netip.AddrPortFrom(nowhere[0], 8080), netip.AddrPortFrom(nowhere[0], 8081), netip.AddrPortFrom(nowhere[1], 8080),
	}).Draw(t, "virtual")
	k := kernel.VirtualAt(addr, rapid.SampledFrom([]kernel.Proto{kernel.TCP, kernel.UDP}).Draw(t, "proto"))
	if rapid.Bool().Draw(t, "is real") {
		real := netip.AddrPortFrom(netip.MustParseAddr("192.0.2.9"), uint16(rapid.IntRange(1, 3).Draw(t, "port")))
		if k.Family() == kernel.IPv6 {
			real = netip.AddrPortFrom(netip.MustParseAddr("2001:db8::9"), real.Port())
		}
		return kernel.Real{Key: kernel.RealKey{Virtual: k, Addr: real}, Weight: uint32(rapid.IntRange(0, 3).Draw(t, "weight"))}
	}
	v := kernel.Virtual{Key: k, Scheduler: rapid.SampledFrom(append([]string{"mh"}, kernel.RelaySchedulers...)).Draw(t, "scheduler"), Netmask: uint8(k.Family().Bits())}
	if rapid.Bool().Draw(t, "persistent") {
		v = persistent(v, uint32(rapid.IntRange(1, 100).Draw(t, "timeout")))
	}
	return v
}

func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	errors.As(err, &errno)
	return errno
}

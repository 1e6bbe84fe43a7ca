package host

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/ipvs"
	"github.com/svcproxy/svcproxy/kernel/relay"
)

// below has virtual servers of another mode.
type below struct {
	noBalancer
	virtuals []kernel.Virtual
	reals    []kernel.Real
}

func (b *below) Read() (ipvs.Reading, error) {
	return ipvs.Reading{Virtuals: b.virtuals, Reals: b.reals, Conns: make([]kernel.Conns, len(b.reals))}, nil
}

func (b *below) Reals([]kernel.VirtualKey) ([]kernel.Real, []kernel.Conns, error) {
	return b.reals, make([]kernel.Conns, len(b.reals)), nil
}

func (b *below) Apply(ops []kernel.Op) []error {
	for _, op := range ops {
		k, isVirtual := virtualOf(op.Object)
		if !isVirtual {
			b.reals = slices.DeleteFunc(b.reals, func(r kernel.Real) bool { return r == op.Object })
			continue
		}
		b.virtuals = slices.DeleteFunc(b.virtuals, func(v kernel.Virtual) bool { return v.Key == k })
		b.reals = slices.DeleteFunc(b.reals, func(r kernel.Real) bool { return r.Key.Virtual == k })
	}
	return nil
}

// A change of a virtual server that IPVS has moves it to the relay with its real servers. Where the relay cannot listen,
// IPVS keeps it.
func TestMoveToTheRelay(t *testing.T) {
	r, err := relay.New(relay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	virtual := func(addr string) kernel.Virtual {
		k := kernel.VirtualAt(netip.MustParseAddrPort(addr), kernel.TCP)
		return kernel.Virtual{Key: k, Scheduler: "rr", Netmask: 32}
	}
	moves, stays := virtual("127.0.0.1:40801"), virtual("0.0.0.0:40802") // no relay listens everywhere
	endpoint := kernel.Real{Key: kernel.RealKey{Virtual: moves.Key, Addr: netip.MustParseAddrPort("127.0.0.1:1")}, Weight: 1, Forward: kernel.Masquerade}
	gone := endpoint
	gone.Key.Addr = netip.MustParseAddrPort("127.0.0.1:2")
	kept := &below{virtuals: []kernel.Virtual{stays, moves}, reals: []kernel.Real{endpoint, gone}}
	b := withRelay(r, kept).(*relayed)
	if _, err := b.Read(); err != nil || len(b.inIPVS()) != 2 {
		t.Fatalf("%v, %v", b.inIPVS(), err)
	}
	heavier := endpoint
	heavier.Weight = 5
	errs := b.Apply([]kernel.Op{
		{Verb: kernel.Change, Object: stays, Was: stays},
		{Verb: kernel.Change, Object: moves, Was: moves},
		{Verb: kernel.Change, Object: heavier, Was: endpoint},
		{Verb: kernel.Remove, Object: gone, Was: gone}, // from the relay, since IPVS loses the virtual server
	})
	if len(errs) != 4 || errs[0] == nil || errs[1] != nil || errs[2] != nil || errs[3] != nil {
		t.Errorf("errors: %v", errs)
	}
	if !slices.Equal(kept.virtuals, []kernel.Virtual{stays}) || !slices.Equal(b.inIPVS(), []kernel.VirtualKey{stays.Key}) {
		t.Errorf("IPVS has %v, known are %v", kept.virtuals, b.inIPVS())
	}
	now, err := b.Read()
	if err != nil || len(now.Virtuals) != 2 || !slices.Equal(now.Reals, []kernel.Real{heavier}) {
		t.Errorf("%v, %v", now, err)
	}
	known := kernel.State{Virtuals: now.Virtuals, Reals: kernel.RealsOf(now.Reals)}
	if same, err := b.QuickCheck(&known); !same || err != nil {
		t.Errorf("quick check: %v, %v", same, err)
	}
	if errs := b.Apply([]kernel.Op{{Verb: kernel.Remove, Object: stays, Was: stays}, {Verb: kernel.Remove, Object: moves, Was: moves}}); errs != nil && (errs[0] != nil || errs[1] != nil) {
		t.Errorf("removal: %v", errs)
	}
	if now, err := b.Read(); err != nil || len(now.Virtuals) > 0 {
		t.Errorf("%v, %v", now, err)
	}
}

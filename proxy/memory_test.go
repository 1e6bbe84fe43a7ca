package proxy

import (
	"context"
	"log/slog"
	"net/netip"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// After syncs that give the loop something to remember, its reading has nothing that the kernel does not say: what is
// remembered is in Memory.
func TestReadingRemembersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := fake.New(kernel.DefaultNames, kernel.Node{}, kernel.State{})
		key := kernel.VirtualKey{Addr: netip.MustParseAddr("10.96.0.1"), Port: 80, Proto: kernel.TCP}
		real := func(i byte) kernel.Real {
			at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 2, 0, i}), 80)
			return kernel.Real{Key: kernel.RealKey{Virtual: key, Addr: at}, Weight: 1}
		}
		set := kernel.Set{
			Name: kernel.DefaultNames.Set(kernel.IPv4, kernel.VirtualServer), Type: kernel.HashIPPort,
			Family: kernel.IPv4, MaxElem: 4096,
		}
		claims := []kernel.Claim{{Addr: key.Addr, Link: "eth0"}}
		want := kernel.State{
			Sets: []kernel.Set{set}, Virtuals: []kernel.Virtual{{Key: key, Scheduler: "rr", Netmask: 32}},
			Entries: kernel.EntriesOf([]kernel.Entry{{Set: set.Name, Addr: key.Addr, Proto: key.Proto, Port: key.Port}}),
			Reals:   kernel.RealsOf([]kernel.Real{real(1), real(2)}),
			Routes:  []kernel.Route{{Addr: key.Addr}}, Policy: kernel.Policy{Probe: true, Claims: claims},
		}
		rules := func(_ sources.Merged, n kernel.Node, _ []string) (*frontend.Frontends, kernel.State) {
			return frontend.List(sources.Table{}, n, frontend.Config{}), want
		}
		l := asked{}
		p := New(Options{Kernel: k, Rules: rules, Prober: l, Log: slog.New(slog.DiscardHandler), SyncPeriod: time.Minute})
		p.setPeriods(periods{time.Minute, 0})
		sync := func() {
			t.Helper()
			if err := p.sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			select {
			case a := <-p.prober.answered:
				p.prober.keep(a)
			default:
			}
			time.Sleep(time.Second)
			sameAsRead(t, k, &p.reading.have)
		}
		sync()
		sync()
		k.SetConns(real(1).Key, kernel.Conns{Active: 1})
		want.Reals = kernel.RealsOf([]kernel.Real{real(2)})
		sync()
		want.Policy.Cut, want.Policy.Quiesced = []kernel.RealKey{real(2).Key}, []kernel.RealKey{real(2).Key}
		gone := kernel.Op{Verb: kernel.Remove, Object: want.Entries.Slice()[0]}
		if err := k.Apply(t.Context(), kernel.Plan{Ops: []kernel.Op{gone}}); err != nil {
			t.Fatal(err)
		}
		p.Check("")
		sync()
		if m := p.reading.memory; len(m.Drains)*len(m.Cut)*len(m.Quiesced)*len(m.Owned) == 0 || len(p.prober.answers) == 0 {
			t.Errorf("the syncs give too little to remember: %+v", m)
		}
	})
}

type asked struct{ Prober }

func (asked) Probe(context.Context, []kernel.Claim) ([]kernel.Taken, error) { return nil, nil }
func (asked) Announce(context.Context, []kernel.Claim) error                { return nil }

// sameAsRead compares a reading that the loop keeps up to date with a new one, field by field.
func sameAsRead(t testing.TB, k Kernel, have *kernel.Observed) {
	t.Helper()
	read, err := k.Read(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := have.State.String(), read.State.String(); got != want {
		t.Errorf("the loop knows:\n%s\nthe kernel has:\n%s", got, want)
	}
	got, want := reflect.ValueOf(*have), reflect.ValueOf(read)
	for i := range got.NumField() {
		switch name := got.Type().Field(i).Name; name {
		case "State", "Conns", "Fresh": // connections are counted when they are needed
		default:
			g, w := got.Field(i), want.Field(i)
			if empty(g) != empty(w) || !empty(g) && !reflect.DeepEqual(g.Interface(), w.Interface()) {
				t.Errorf("%s: the loop has %v, a reading %v", name, g, w)
			}
		}
	}
}

// empty treats a nil slice and one without elements alike.
func empty(v reflect.Value) bool {
	return v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0
}

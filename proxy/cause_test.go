package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// A sync gives the same plan, report and drift under every set of causes.
func TestCausesDecideNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := syncsUnder(t, func(s CauseSet) CauseSet { return s })
		if !strings.Contains(want[1], "Repairs:[+") || !strings.Contains(want[3], "Repairs:[]") {
			t.Errorf("want drift in the second sync, and none in the fourth:\n%s", want)
		}
		sets := []CauseSet{0, 1<<len(causes) - 1}
		for _, c := range Causes() {
			sets = append(sets, CausesOf(c))
		}
		for _, s := range sets {
			got := syncsUnder(t, func(CauseSet) CauseSet { return s })
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("causes %b, sync %d:\n%s\nwant:\n%s", s, i, got[i], want[i])
				}
			}
		}
	})
}

// syncsUnder makes syncs at a start, for drift, for a table with more drift, after a failure and for nothing, under
// other causes than their own. It returns what each did.
func syncsUnder(t *testing.T, causes func(CauseSet) CauseSet) (did []string) {
	k := fake.New(kernel.DefaultNames, kernel.Node{}, kernel.State{})
	key := kernel.VirtualKey{Addr: netip.MustParseAddr("10.96.0.1"), Port: 80, Proto: kernel.TCP}
	real := func(i byte) kernel.Real {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 2, 0, i}), 80)
		return kernel.Real{Key: kernel.RealKey{Virtual: key, Addr: at}, Weight: 1}
	}
	n := byte(2) // real servers
	name := kernel.DefaultNames.Set(kernel.IPv4, kernel.VirtualServer)
	set := kernel.Set{Name: name, Type: kernel.HashIPPort, Family: kernel.IPv4, MaxElem: 4096}
	rules := func(t sources.Merged, node kernel.Node, _ []string) (*frontend.Frontends, kernel.State) {
		s := kernel.State{Sets: []kernel.Set{set}, Virtuals: []kernel.Virtual{{Key: key, Scheduler: "rr", Netmask: 32}}}
		s.Entries = kernel.EntriesOf([]kernel.Entry{{Set: set.Name, Addr: key.Addr, Proto: key.Proto, Port: key.Port}})
		for i := range n {
			s.Reals = s.Reals.With(nil, []kernel.Real{real(i + 1)})
		}
		s.Policy.Hold = t.Keeps
		return frontend.List(sources.Table{}, node, frontend.Config{}), s
	}
	p := New(Options{Kernel: k, Rules: rules, Log: slog.New(slog.DiscardHandler), SyncPeriod: time.Minute})
	p.setPeriods(periods{time.Minute, 0})
	sync := func() {
		r := p.accept(time.Now())
		r.Causes = causes(r.Causes)
		if err := p.round(context.Background(), r); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
	}
	p.OnSync = func(s *Snapshot) {
		r := s.Report
		r.Causes, r.Start, r.Planned = 0, time.Time{}, time.Time{}
		did = append(did, fmt.Sprintf("%+v\npace %v", r, p.pace.due().Sub(p.pace.lastSync)))
	}
	lose := func(r kernel.Real) {
		if err := k.Apply(t.Context(), kernel.Plan{Ops: []kernel.Op{{Verb: kernel.Remove, Object: r}}}); err != nil {
			t.Fatal(err)
		}
		p.Check("")
	}
	sync()
	lose(real(1))
	sync()
	lose(real(2))
	n = 3
	k.Fail = func(o kernel.Op) error {
		if o.Object == real(3) {
			return kernel.ErrUnknownOutcome
		}
		return nil
	}
	sync()
	sync()
	k.Fail = nil
	p.Check("")
	sync()
	sync()
	return did
}

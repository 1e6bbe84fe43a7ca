package plan

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

func udp(addr string) kernel.VirtualKey {
	return kernel.VirtualAt(netip.MustParseAddrPort(addr), kernel.UDP)
}

// balanced returns a state in which addresses lead to backends, with ownership.
func balanced(pairs ...[]string) kernel.State {
	set := kernel.DefaultNames.Set(kernel.IPv4, kernel.VirtualServer)
	s := kernel.State{Sets: []kernel.Set{{Name: set, Type: kernel.HashIPPort, Family: kernel.IPv4, MaxElem: 65536}}}
	for _, p := range pairs {
		k := udp(p[0])
		s.Virtuals = append(s.Virtuals, kernel.Virtual{Key: k, Scheduler: "rr", Netmask: 32})
		s.Entries = s.Entries.With(nil, []kernel.Entry{{Set: set, Addr: k.Addr, Proto: k.Proto, Port: k.Port}})
		for _, to := range p[1:] {
			s.Reals = s.Reals.With(nil, []kernel.Real{{Key: kernel.RealKey{Virtual: k, Addr: netip.MustParseAddrPort(to)}, Weight: 1}})
		}
	}
	s.Sort()
	return s
}

// A UDP client that keeps its port is freed from what its packets were tracked to: a
// backend that is gone, or an address that nothing balanced.
func TestFlows(t *testing.T) {
	have := balanced(
		[]string{"10.96.0.1:53", "10.2.0.1:53", "10.2.0.2:53"},
		[]string{"10.96.0.2:53", "10.2.0.1:53"},
		[]string{"10.96.0.3:53", "10.2.0.1:53"})
	want := balanced(
		[]string{"10.96.0.0:53", "10.2.0.1:53"},
		[]string{"10.96.0.1:53", "10.2.0.2:53", "10.2.0.3:53"},
		[]string{"10.96.0.3:53", "10.2.0.1:53"},
		[]string{"10.96.0.4:53"})
	down := want.Reals.Of(udp("10.96.0.3:53"))[0]
	down.Weight = 0
	want.Reals = want.Reals.With(nil, []kernel.Real{down})
	const fresh = "10.96.0.0:53 10.96.0.0:53\n"
	const gone = "10.96.0.1:53 10.2.0.1:53\n10.96.0.2:53 10.2.0.1:53\n"
	for _, c := range []struct {
		name string
		hold bool
		want string
	}{
		{"all sources have spoken", false, fresh + gone + "10.96.0.4:53 10.96.0.4:53\n"},
		{"nothing may be removed", true, fresh + "10.96.0.4:53 10.96.0.4:53\n"},
	} {
		want.Policy.Hold = c.hold
		var got string
		for _, o := range Once(want, kernel.Observed{State: have, Names: kernel.DefaultNames}).Ops {
			if f, ok := o.Object.(kernel.Flow); ok {
				got += f.Key.Virtual.AddrPort().String() + " " + f.Key.Addr.String() + "\n"
			}
		}
		if got != c.want {
			t.Errorf("%s:\n%swant:\n%s", c.name, got, c.want)
		}
	}
}

// Where only endpoints differ, the states share their virtual servers. The flows are the same as without sharing.
func TestFlowsOfSharedVirtuals(t *testing.T) {
	have := balanced(
		[]string{"10.96.0.1:53", "10.2.0.1:53", "10.2.0.2:53"},
		[]string{"10.96.0.2:53"},
		[]string{"10.96.0.3:53", "10.2.0.1:53", "10.2.0.2:53"})
	want := have
	gone, heavier := have.Reals.Of(udp("10.96.0.1:53"))[:1], have.Reals.Of(udp("10.96.0.3:53"))[0]
	heavier.Weight = 2
	other := kernel.Real{Key: kernel.RealKey{Virtual: udp("10.96.0.2:53"), Addr: netip.MustParseAddrPort("10.2.0.3:53")}, Weight: 1}
	want.Reals = have.Reals.With(gone, []kernel.Real{other, heavier})
	apart := want
	apart.Virtuals, apart.Reals = slices.Clone(want.Virtuals), kernel.RealsOf(want.Reals.Slice())
	for _, hold := range []bool{false, true} {
		want.Policy.Hold, apart.Policy.Hold = hold, hold
		got, all := Once(want, kernel.Observed{State: have, Names: kernel.DefaultNames}), Once(apart, kernel.Observed{State: have, Names: kernel.DefaultNames})
		if got.String() != all.String() || !hold && !strings.Contains(got.String(), "10.2.0.1:53") {
			t.Errorf("hold %v:\n%s\nwithout sharing:\n%s", hold, got, all)
		}
	}
}

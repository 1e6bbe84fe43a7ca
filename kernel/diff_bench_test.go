package kernel

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
)

// bigState has virtuals x reals, each VIP bound and in its sets.
func bigState(virtuals, reals int) State {
	var s State
	n := DefaultNames
	for _, spec := range SetSpecs {
		for _, f := range []Family{IPv4, IPv6} {
			s.Sets = append(s.Sets, Set{Name: n.Set(f, spec.Name), Type: spec.Type, Family: f, MaxElem: Capacity(virtuals * reals)})
		}
	}
	for i := range virtuals {
		vip := netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})
		k := VirtualKey{Addr: netip.AddrPortFrom(vip, 80), Proto: TCP}
		s.Virtuals = append(s.Virtuals, Virtual{Key: k, Scheduler: "rr", Netmask: 32})
		for _, set := range []SetName{ClusterIP, VirtualServer} {
			s.Entries = append(s.Entries, Entry{Set: n.Set(IPv4, set), Addr: vip, Proto: TCP, Port: 80})
		}
		s.Entries = append(s.Entries, Entry{Set: n.Set(IPv4, IPVSIPs), Addr: vip})
		s.Addrs = append(s.Addrs, Addr{Addr: vip, Link: n.Device})
		for j := range reals {
			s.Reals = append(s.Reals, Real{Key: RealKey{Virtual: k, Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{172, byte(j), byte(i >> 8), byte(i)}), 8080)}, Weight: 1})
		}
	}
	s.Sort()
	return s
}

func BenchmarkDiffIdle(b *testing.B) {
	for _, size := range [][2]int{{1000, 10}, {5000, 5}, {10000, 10}} {
		b.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(b *testing.B) {
			want := bigState(size[0], size[1])
			have := Observed{State: bigState(size[0], size[1]), Names: DefaultNames}
			b.ReportAllocs()
			for b.Loop() {
				if p := Diff(want, have); !p.Empty() {
					b.Fatal(p.Ops[0])
				}
			}
		})
	}
}

func TestDiffIdleAllocatesNothing(t *testing.T) {
	want := bigState(100, 10)
	have := Observed{State: bigState(100, 10), Names: DefaultNames}
	if n := testing.AllocsPerRun(10, func() { Diff(want, have) }); n != 0 {
		t.Errorf("an idle diff made %v allocations, want none", n)
	}
}

// BenchmarkDiffOne is the diff of a changed weight, as the loop finds it: all else
// shared with the state before.
func BenchmarkDiffOne(b *testing.B) {
	for _, size := range [][2]int{{1000, 10}, {5000, 5}, {10000, 10}} {
		b.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(b *testing.B) {
			before := bigState(size[0], size[1])
			have := Observed{State: bigState(size[0], size[1]), Names: DefaultNames, Settled: &before}
			want := before
			want.Reals = slices.Clone(before.Reals)
			want.Reals[len(want.Reals)/2].Weight = 2
			for b.Loop() {
				if p := Diff(want, have); len(p.Ops) != 1 {
					b.Fatal(len(p.Ops))
				}
			}
		})
	}
}

func TestSettleShares(t *testing.T) {
	want := bigState(100, 10)
	for _, have := range []Observed{{Names: DefaultNames}, {Names: DefaultNames, State: bigState(100, 10)}} {
		settled, ok := Settle(have, want, Diff(want, have))
		s := &settled.State
		if !ok || !shared(s.Entries, want.Entries) || !shared(s.Virtuals, want.Virtuals) ||
			!shared(s.Reals, want.Reals) || !sharedAddrs(s, &want) {
			t.Errorf("after a reading of %d real servers not all is shared that was wanted", len(have.Reals))
		}
	}
}

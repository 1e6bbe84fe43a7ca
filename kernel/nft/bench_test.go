package nft

import (
	"fmt"
	"math"
	"net/netip"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// bigState has maps of n services with m endpoints each.
func bigState(n, m int) kernel.State {
	names := kernel.DefaultNames
	s := kernel.State{
		Sets: []kernel.Set{
			{Name: names.Set(kernel.IPv4, kernel.Frontends), Type: kernel.MapIPPort},
			{Name: names.Set(kernel.IPv4, kernel.Slots), Type: kernel.MapIPPortSlot},
		},
		Chains: []kernel.Chain{
			{Table: "nat", Name: names.Balancer(fmt.Sprint(m - 1)), Rules: fmt.Sprintf("-j DNAT --map KUBE-SLOTS dst,dst --random %d", m-1)},
			{Table: "nat", Name: names.Balancer(fmt.Sprint(m)), Rules: fmt.Sprintf("-j DNAT --map KUBE-SLOTS dst,dst --random %d", m)},
			{Table: "nat", Name: "KUBE-SERVICES", Rules: "-j VMAP --map KUBE-FRONTENDS dst,dst"},
			{Table: "nat", Name: "OUTPUT", Rules: "-j KUBE-SERVICES"},
			{Table: "nat", Name: "PREROUTING", Rules: "-j KUBE-SERVICES"},
		},
	}
	for i := range s.Sets {
		s.Sets[i].Family, s.Sets[i].MaxElem = kernel.IPv4, math.MaxUint32
	}
	for i := range s.Chains {
		s.Chains[i].Family = kernel.IPv4
	}
	var fronts, slots []kernel.Entry
	for i := range n {
		e := kernel.Entry{Set: "KUBE-FRONTENDS", Proto: kernel.TCP, Port: 80, Goto: names.Balancer(fmt.Sprint(m)),
			Addr: netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})}
		fronts = append(fronts, e)
		for k := range m {
			a := netip.AddrFrom4([4]byte{10, byte(100 + k), byte(i >> 8), byte(i)})
			slots = append(slots, kernel.Entry{Set: "KUBE-SLOTS", Addr: e.Addr, Proto: e.Proto, Port: e.Port, Slot: uint16(k),
				Second: netip.PrefixFrom(a, 32), ToPort: 8080})
		}
	}
	s.Entries = kernel.EntriesOf(append(fronts, slots...))
	return s
}

// BenchmarkLoad makes the tables of 5,000 services with 5 endpoints each.
func BenchmarkLoad(b *testing.B) {
	table := open(b, kernel.DefaultNames)
	all := ops(b, table, bigState(5000, 5))
	b.ReportAllocs()
	for b.Loop() {
		if errs := table.Apply(all); errs != nil {
			b.Fatal(errs[0])
		}
		b.StopTimer()
		if err := table.Remove(kernel.IPv4); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkEndpoint takes one of five endpoints of one of 5,000 services out and puts it in again.
func BenchmarkEndpoint(b *testing.B) {
	table := open(b, kernel.DefaultNames)
	s := bigState(5000, 5)
	apply(b, table, s)
	slots := s.Entries.Of("KUBE-SLOTS").Slice()[:5]
	front, moved := s.Entries.Of("KUBE-FRONTENDS").Slice()[0], slots[4]
	fewer := front
	fewer.Goto, moved.Slot = kernel.DefaultNames.Balancer("4"), 1
	out := []kernel.Op{{Verb: kernel.Change, Object: moved, Was: slots[1]}, {Verb: kernel.Remove, Object: slots[4], Was: slots[4]},
		{Verb: kernel.Change, Object: fewer, Was: front}}
	in := []kernel.Op{{Verb: kernel.Change, Object: slots[1], Was: moved}, {Verb: kernel.Add, Object: slots[4]},
		{Verb: kernel.Change, Object: front, Was: fewer}}
	b.ReportAllocs()
	for b.Loop() {
		for _, plan := range [][]kernel.Op{out, in} {
			if errs := table.Apply(plan); errs != nil {
				b.Fatal(errs)
			}
		}
	}
}

// BenchmarkRead reads the tables of 5,000 services with 5 endpoints each.
func BenchmarkRead(b *testing.B) {
	table := open(b, kernel.DefaultNames)
	s := bigState(5000, 5)
	apply(b, table, s)
	b.ReportAllocs()
	for b.Loop() {
		table.forget()
		if _, err := table.read(true); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkVerify compares them with what is known, after another program has changed rules and while none does.
func BenchmarkVerify(b *testing.B) {
	for name, changed := range map[string]bool{"changed": true, "unchanged": false} {
		b.Run(name, func(b *testing.B) {
			table := open(b, kernel.DefaultNames)
			s := bigState(5000, 5)
			apply(b, table, s)
			b.ReportAllocs()
			for b.Loop() {
				if changed {
					table.forget()
				}
				same, err := table.VerifySets(&s, func(string) bool { return true })
				if !same || err != nil {
					b.Fatal(same, err)
				}
			}
		})
	}
}

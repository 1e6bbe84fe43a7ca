package ipset

import (
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// The benchmarks use a hash:ip,port set of 100,000 entries. Wall time on a shared machine says
// little: compare the counts of b.ReportMetric, or run in the guest with -icount.
const benchEntries = 100_000

func benchSet() kernel.Set {
	return kernel.Set{Name: "KUBE-CLUSTER-IP", Type: kernel.HashIPPort, Family: kernel.IPv4, MaxElem: kernel.Capacity(benchEntries)}
}

func BenchmarkFill(b *testing.B) {
	s := open(b, nil)
	set := benchSet()
	ops := entries(set.Name, benchEntries)
	var calls uint64
	for b.Loop() {
		b.StopTimer()
		apply(b, s, []kernel.Op{{Verb: kernel.Add, Object: set}})
		before := s.Stats()
		b.StartTimer()
		apply(b, s, ops)
		b.StopTimer()
		after := s.Stats()
		calls = after.Sends - before.Sends + after.Receives - before.Receives
		apply(b, s, []kernel.Op{{Verb: kernel.Remove, Object: set}})
		b.StartTimer()
	}
	b.ReportMetric(float64(calls), "syscalls/op")
}

func BenchmarkRead(b *testing.B) {
	s := open(b, nil)
	set := benchSet()
	apply(b, s, append([]kernel.Op{{Verb: kernel.Add, Object: set}}, entries(set.Name, benchEntries)...))
	b.ReportAllocs()
	for b.Loop() {
		_, got, err := s.Read(kernel.DefaultNames)
		if err != nil || got.Len() != benchEntries {
			b.Fatal(got.Len(), err)
		}
	}
}

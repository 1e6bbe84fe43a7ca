package ipvs

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// bigTable returns the additions of n virtual servers with m real servers each, of one family.
func bigTable(n, m int, family kernel.Family) []kernel.Op {
	vip, backend := netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("10.0.0.1")
	if family == kernel.IPv6 {
		vip, backend = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd01::1")
	}
	var virtuals []kernel.Virtual
	var reals []kernel.Real
	for range n {
		v := virtual(kernel.TCP, netip.AddrPortFrom(vip, 80).String(), "rr")
		virtuals = append(virtuals, v)
		for range m {
			reals = append(reals, target(v, netip.AddrPortFrom(backend, 8080).String(), 1))
			backend = backend.Next()
		}
		vip = vip.Next()
	}
	return additions(virtuals, reals)
}

// N messages cost at most 2*ceil(N/250)+8 system calls. One changed endpoint costs 2 at any size.
func TestKernelSystemCalls(t *testing.T) {
	table := open(t)
	ops := bigTable(5000, 5, kernel.IPv4)
	before := table.Stats()
	apply(t, table, ops...)
	s := table.Stats()
	calls := s.Sends - before.Sends + s.Receives - before.Receives
	t.Logf("%d operations: %d system calls", len(ops), calls)
	if limit := uint64(2*((len(ops)+249)/250) + 8); calls > limit {
		t.Errorf("%d system calls for %d operations, want at most %d", calls, len(ops), limit)
	}
	r := read(t, table)
	if len(r.Virtuals) != 5000 || len(r.Reals) != 25000 {
		t.Errorf("read %d virtual and %d real servers", len(r.Virtuals), len(r.Reals))
	}
	before = table.Stats()
	if got := read(t, table); len(got.Reals) != 25000 {
		t.Errorf("second reading: %d real servers", len(got.Reals))
	}
	s = table.Stats()
	t.Logf("a reading: %d getsockopt, %d sends, %d receives", s.Getsockopts-before.Getsockopts, s.Sends-before.Sends, s.Receives-before.Receives)
	if s.Messages != before.Messages {
		t.Error("reading wrote")
	}

	before = table.Stats()
	one := r.Reals[777]
	one.Weight = 9
	apply(t, table, change(one))
	s = table.Stats()
	if s.Sends-before.Sends != 1 || s.Receives-before.Receives != 1 || s.Queries != before.Queries || s.Getsockopts != before.Getsockopts {
		t.Errorf("one change: %+v after %+v", s, before)
	}
}

func BenchmarkKernel(b *testing.B) {
	for _, size := range []struct{ n, m int }{{1000, 10}, {5000, 5}} {
		for _, family := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
			name := fmt.Sprintf("%dx%d/%v", size.n, size.m, family)
			// Each run has a fresh namespace, because deleted real servers slow down additions.
			b.Run("load/"+name, func(b *testing.B) {
				ops := bigTable(size.n, size.m, family)
				for b.Loop() {
					b.StopTimer()
					table := open(b)
					b.StartTimer()
					apply(b, table, ops...)
				}
			})
			b.Run("read/"+name, func(b *testing.B) {
				table := open(b)
				apply(b, table, bigTable(size.n, size.m, family)...)
				for b.Loop() {
					if _, err := table.Read(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		b.Run(fmt.Sprintf("dump/%dx%d", size.n, size.m), func(b *testing.B) {
			table := open(b)
			apply(b, table, bigTable(size.n, size.m, kernel.IPv4)...)
			for b.Loop() {
				if _, err := table.dumpServices(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

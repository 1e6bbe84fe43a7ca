package plan_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/testdata/world"
)

func BenchmarkDiffIdle(b *testing.B) {
	for _, size := range [][2]int{{1000, 10}, {5000, 5}, {10000, 10}} {
		b.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(b *testing.B) {
			want := world.Large(size[0], size[1])
			have := kernel.Observed{State: world.Large(size[0], size[1]), Names: kernel.DefaultNames}
			b.ReportAllocs()
			for b.Loop() {
				if p := plan.Once(want, have); !p.Empty() {
					b.Fatal(p.Ops[0])
				}
			}
		})
	}
}

func TestDiffIdleAllocatesNothing(t *testing.T) {
	want := world.Large(100, 10)
	have := kernel.Observed{State: world.Large(100, 10), Names: kernel.DefaultNames}
	if n := testing.AllocsPerRun(10, func() { plan.Once(want, have) }); n != 0 {
		t.Errorf("an idle diff made %v allocations, want none", n)
	}
}

// BenchmarkDiffOne is the diff of a changed weight, as the loop finds it: all else
// shared with the state before.
func BenchmarkDiffOne(b *testing.B) {
	for _, size := range [][2]int{{1000, 10}, {5000, 5}, {10000, 10}} {
		b.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(b *testing.B) {
			before := world.Large(size[0], size[1])
			have := kernel.Observed{State: before, Names: kernel.DefaultNames}
			want := before
			other := before.Reals.Of(before.Virtuals[size[0]/2].Key)[0]
			other.Weight = 2
			want.Reals = before.Reals.With(nil, []kernel.Real{other})
			for b.Loop() {
				if p := plan.Once(want, have); len(p.Ops) != 1 {
					b.Fatal(len(p.Ops))
				}
			}
		})
	}
}

func TestAppliedShares(t *testing.T) {
	want := world.Large(100, 10)
	for _, have := range []kernel.Observed{{Names: kernel.DefaultNames}, {Names: kernel.DefaultNames, State: world.Large(100, 10)}} {
		applied, ok := plan.Applied(have, want, plan.Once(want, have))
		s := &applied.State
		if !ok || !s.Entries.Shares(want.Entries) || !kernel.SameSlice(s.Virtuals, want.Virtuals) ||
			!s.Reals.Shares(want.Reals) || !kernel.SameSlice(s.Addrs, want.Addrs) {
			t.Errorf("after a reading of %d real servers not all is shared that was wanted", have.Reals.Len())
		}
	}
}

// BenchmarkDiffNew is the diff of a first start.
func BenchmarkDiffNew(b *testing.B) {
	want := world.Large(5000, 5)
	b.ReportAllocs()
	for b.Loop() {
		plan.Once(want, kernel.Observed{Names: kernel.DefaultNames})
	}
}

// BenchmarkDiffWeights is the diff of a table in which each weight has changed.
func BenchmarkDiffWeights(b *testing.B) {
	before := world.Large(1000, 10)
	have := kernel.Observed{State: before, Names: kernel.DefaultNames}
	want := before
	other := slices.Clone(before.Reals.Slice())
	for i := range other {
		other[i].Weight++
	}
	want.Reals = kernel.RealsOf(other)
	b.ReportAllocs()
	for b.Loop() {
		if p := plan.Once(want, have); len(p.Ops) != len(other) {
			b.Fatal(len(p.Ops))
		}
	}
}

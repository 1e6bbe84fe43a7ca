package main

import (
	"math/rand/v2"
	"testing"
)

// The interval has the true median in it about as often as it says.
func TestMiddle(t *testing.T) {
	if f := middle(nil); f != (figure{}) {
		t.Errorf("of nothing: %v", f)
	}
	if f := middle([]float64{3, 1}); f != (figure{1, 1, 3}) {
		t.Errorf("of two: %v", f)
	}
	random := rand.New(rand.NewPCG(1, 2))
	const tries = 2000
	for _, n := range []int{7, 15, 31} {
		in := 0
		for range tries {
			values := make([]float64, n)
			for i := range values {
				values[i] = random.ExpFloat64() * random.Float64() // nothing like normal
			}
			const median = 0.2673 // where e^-m - m E1(m) is a half
			if f := middle(values); f.low <= median && median <= f.high {
				in++
			}
		}
		if share := float64(in) / tries; share < 0.94 {
			t.Errorf("%d values: the median lies in %.3f of the intervals", n, share)
		}
	}
}

// Two ways that differ less than their samples do are equal; a difference that all
// turns show is one, however much the turns differ.
func TestPairedGates(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		factor  float64
		verdict string
	}{{1, holds}, {1.02, holds}, {1.2, fails}, {0.8, holds}} {
		b := &bench{}
		for range pathWallRounds {
			moment := 1e6 * (1 + random.Float64()) // how fast the machine is just then
			took := func(by string, factor float64) {
				nanos := moment * factor * (1 + 0.1*random.NormFloat64())
				b.samples = append(b.samples, sample{Row: "r", By: by, Nanos: int64(nanos)})
			}
			took("a", c.factor)
			took("b", 1)
		}
		g := gate{of: cell{row: "r", by: "a"}, per: cell{row: "r", by: "b"}, value: instructions, most: 1.03, paired: true}
		if v, ok := b.figure(g); !ok || g.verdict(v) != c.verdict {
			t.Errorf("x%v: %v %s, want %s", c.factor, v, g.verdict(v), c.verdict)
		}
	}
}

package iptables

import (
	"math"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// The texts are what iptables-save 1.8.9 prints for these probabilities.
func TestProbability(t *testing.T) {
	for _, c := range []struct {
		w, sum uint64
		want   string
	}{
		{1, 2, "0.50000000000"}, {1, 3, "0.33333333349"}, {2, 3, "0.66666666651"}, {1, 4, "0.25000000000"},
		{1, 5, "0.20000000019"}, {1, 10, "0.10000000009"}, {3, 6, "0.50000000000"}, {2, 7, "0.28571428591"},
		{1, 1 << 33, "0.00000000047"}, {1<<33 - 1, 1 << 33, "1.00000000000"}, {1, 1, "1.00000000000"},
	} {
		if got := probability(c.w, c.sum); got != c.want {
			t.Errorf("%d of %d: %s, want %s", c.w, c.sum, got, c.want)
		}
	}
}

// The kernel stores what the text says, and the text of what it stores is the same.
func TestProbabilityIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sum := rapid.Uint64Range(1, 1<<40).Draw(t, "sum")
		w := rapid.Uint64Range(1, sum).Draw(t, "weight")
		for name, text := range map[string]string{"ours": probability(w, sum), "kube-proxy's": kubeProxys(w, sum)} {
			p, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			units := math.Round(p * unit) // iptables: lround(0x80000000 * p)
			if again := strconv.FormatFloat(units/unit, 'f', 11, 64); again != text || units < 1 || units > unit {
				t.Fatalf("%s: %s is read as %v parts, and printed as %s", name, text, units, again)
			}
			if want := float64(w) / float64(sum); math.Abs(p-want) > 1.1/unit {
				t.Fatalf("%s: %s, want %v", name, text, want)
			}
		}
	})
}

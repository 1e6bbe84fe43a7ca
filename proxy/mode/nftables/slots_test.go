package nftables

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/proxy/mode"
)

func endpoints(weights ...uint32) (list []mode.Endpoint) {
	at := netip.MustParseAddr("10.2.0.1")
	for _, w := range weights {
		list = append(list, mode.Endpoint{At: netip.AddrPortFrom(at, 80), Weight: w})
		at = at.Next()
	}
	return list
}

// shares counts the slots of each endpoint.
func shares(slots []int32, n int) []int {
	counts := make([]int, n)
	for _, of := range slots {
		counts[of]++
	}
	return counts
}

func TestSharesAreWeights(t *testing.T) {
	for _, c := range []struct {
		weights []uint32
		want    string
	}{
		{[]uint32{1, 1, 1}, "[1 1 1]"},
		{[]uint32{3, 1}, "[3 1]"},
		{[]uint32{200, 100, 300}, "[2 1 3]"},
		{[]uint32{100, 99}, "[100 99]"},
		{[]uint32{65535, 1}, "[255 1]"},
		{[]uint32{1000, 999, 1}, "[128 127 1]"},
		{nil, "[]"},
	} {
		list := endpoints(c.weights...)
		if got := fmt.Sprint(shares(drawn(list, 1), len(list))); got != c.want {
			t.Errorf("weights %v: %s, want %s", c.weights, got, c.want)
		}
	}
	list := endpoints(1, 2, 3)
	for i, n := range shares(hashed(list, 1), 3) {
		if want := 128 * (i + 1) / 6; n < want*3/4 || n > want*5/4 {
			t.Errorf("endpoint %d has %d of 128 slots, want about %d", i, n, want)
		}
	}
}

// Each endpoint has a slot, and shares are right within one slot or the limit.
func TestDrawnSlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.Uint32Range(1, 65535), 1, 600).Draw(t, "weights")
		slots := drawn(endpoints(weights...), 1)
		sum := 0.0
		for _, w := range weights {
			sum += float64(w)
		}
		for i, n := range shares(slots, len(weights)) {
			want := float64(weights[i]) / sum
			if got := float64(n) / float64(len(slots)); n == 0 || got-want > 1.0/256 || want-got > 0.1 {
				t.Fatalf("endpoint %d of weight %d has %d of %d slots, want %.4f", i, weights[i], n, len(slots), want)
			}
		}
	})
}

// With any weights, an endpoint that goes takes no other's slots along.
func TestHashedSlotsStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := endpoints(rapid.SliceOfN(rapid.Uint32Range(1, 5), 3, 4).Draw(t, "weights")...)
		gone := rapid.IntRange(0, len(list)-1).Draw(t, "gone")
		rest := slices.Delete(slices.Clone(list), gone, gone+1)
		before, after := hashed(list, 1), hashed(rest, 1)
		for slot, of := range before {
			if int(of) != gone && list[of].At != rest[after[slot]].At {
				t.Fatalf("slot %d moves from %v to %v", slot, list[of], rest[after[slot]])
			}
		}
	})
}

package status

import (
	"net/netip"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// A real server is full from its upper threshold until it has fewer connections than the lower one, or than three
// quarters. It is not known to be full between the two before a reading found it at the upper one.
func TestFullReals(t *testing.T) {
	key := func(n byte) kernel.RealKey {
		return kernel.RealKey{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 2, n, 10}), 80)}
	}
	want := []kernel.Real{{Key: key(1)}, {Key: key(2), Upper: 8}, {Key: key(3), Upper: 8, Lower: 3}}
	var last reals
	for _, step := range []struct {
		conns         uint32
		second, third bool
	}{{7, false, false}, {8, true, true}, {6, true, true}, {5, false, true}, {3, false, true}, {7, false, true}, {2, false, false}, {7, false, false}, {9, true, true}} {
		var c kernel.Counters
		for n := range byte(4) { // the first is not wanted
			c.Reals = append(c.Reals, kernel.RealCounters{Key: key(n), Active: step.conns - 1, Inactive: 1})
		}
		last = fullReals(last, kernel.RealsOf(want), c)
		_, first := last[key(1)]
		_, second := last[key(2)]
		_, third := last[key(3)]
		if first || second != step.second || third != step.third {
			t.Errorf("%d connections: %v", step.conns, last)
		}
	}
	known := kernel.Counters{KnowsFull: true, Reals: []kernel.RealCounters{{Key: key(2), Active: 7, Full: true}, {Key: key(3), Active: 7}}}
	if full := fullReals(last, kernel.RealsOf(want), known); len(full) != 1 || !has(full, key(2)) {
		t.Errorf("the counters tell: %v", full)
	}
	if full := fullReals(last, kernel.RealsOf(want), kernel.Counters{}); len(full) != 0 {
		t.Errorf("the kernel has none: %v", full)
	}
}

func has(all reals, k kernel.RealKey) bool {
	_, ok := all[k]
	return ok
}

package plan

import (
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// hairpins are the ops on entries for hairpins of a family, in the order of the set.
type hairpins struct {
	set string
	ops []int32
	at  int // in ops: the one of the last endpoint
}

// isHairpin reports whether op i is on an entry for hairpins, and notes it. Its address is that of an endpoint.
func (w *waves) isHairpin(i int) bool {
	if w.phases[i] != kernel.AddGuards {
		return false
	}
	set := w.ops[i].Object.(kernel.Entry).Set
	for f := range w.loops {
		if h := &w.loops[f]; set == h.set {
			h.ops = append(h.ops, int32(i))
			return true
		}
	}
	return false
}

// find returns the index in h.ops of the op on the entry of a real server, or -1.
func (h *hairpins) find(ops []kernel.Op, r *kernel.RealKey) int {
	key := kernel.VirtualAt(r.Addr, r.Virtual.Proto)
	compare := func(i int32, k kernel.VirtualKey) int { return ops[i].Object.(kernel.Entry).Key().Compare(k) }
	// Endpoints often have the order of their services, so it is mostly the next one.
	if next := h.at + 1; next < len(h.ops) && compare(h.ops[next], key) == 0 {
		h.at = next
		return next
	}
	at, found := slices.BinarySearchFunc(h.ops, key, compare)
	if !found {
		return -1
	}
	h.at = at
	return at
}

// placeHairpins moves the entry of an endpoint into the first wave that adds a real server there: entries for
// all endpoints would take longer than the whole first wave. If a virtual server that exists gets the real
// server, its entry is in no wave.
func (w *waves) placeHairpins() {
	n := len(w.loops[0].ops) + len(w.loops[1].ops)
	if n == 0 {
		return
	}
	w.waveOf = slices.Grow(w.waveOf, n)
	for i, p := range w.phases {
		if p != kernel.AddReals || w.ops[i].Verb != kernel.Add {
			continue
		}
		r, ok := w.ops[i].Object.(kernel.Real) // daemons have this phase, too
		if !ok {
			continue
		}
		h := &w.loops[0]
		if r.Key.Addr.Addr().Is6() {
			h = &w.loops[1]
		}
		at := h.find(w.ops, &r.Key)
		if at < 0 {
			continue
		}
		wave := int32(-1)
		if w.place[i] >= 0 {
			wave = w.waveOf[w.place[i]]
		}
		place := &w.place[h.ops[at]]
		if *place < 0 {
			*place = int32(len(w.waveOf))
			w.waveOf = append(w.waveOf, wave)
		}
		w.waveOf[*place] = min(w.waveOf[*place], wave)
	}
	for _, h := range w.loops {
		for _, i := range h.ops {
			if at := w.place[i]; at >= 0 && w.waveOf[at] < 0 {
				w.place[i] = -1
			} else if at >= 0 {
				w.sizes[w.waveOf[at]]++
			}
		}
	}
}

package packet

import "slices"

// Rules that choose at random divide a packet's path. Trace follows the packet once for
// each way that the draws can turn out.

// draws are the results of the random matches on one path, in their order.
type draws struct {
	hits   []bool
	asked  int     // of hits, on this path so far
	chance float64 // that they turn out so
	begun  bool
}

// start begins a path. It turns out as the last one until the last draw that was a hit,
// which is none now. It returns false if there are no more paths.
func (d *draws) start() bool {
	if d.begun {
		for len(d.hits) > 0 && !d.hits[len(d.hits)-1] {
			d.hits = d.hits[:len(d.hits)-1]
		}
		if len(d.hits) == 0 {
			return false
		}
		d.hits[len(d.hits)-1] = false
	}
	d.asked, d.chance, d.begun = 0, 1, true
	return true
}

// draw reports whether a match with a probability holds on this path.
func (d *draws) draw(p float64) bool {
	if d.asked == len(d.hits) {
		d.hits = append(d.hits, true)
	}
	hit := d.hits[d.asked]
	d.asked++
	if hit {
		d.chance *= p
	} else {
		d.chance *= 1 - p
	}
	return hit
}

// joined makes one verdict of those of all paths, which have their chances in Ways.
func joined(all []Verdict) Verdict {
	v := all[0]
	for _, next := range all[1:] {
		if v.Fate != Balanced {
			v.Fate = next.Fate
		}
		for _, w := range next.Ways {
			i := slices.IndexFunc(v.Ways, func(have Way) bool {
				return have.Real == w.Real && have.Fate == w.Fate && have.Masquerade == w.Masquerade
			})
			if i >= 0 {
				v.Ways[i].Chance += w.Chance
			} else {
				v.Ways = append(v.Ways, w)
			}
		}
	}
	return v
}

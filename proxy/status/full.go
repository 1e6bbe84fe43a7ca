package status

import "github.com/svcproxy/svcproxy/kernel"

// reals is a set of real servers.
type reals map[kernel.RealKey]struct{}

// fullReals returns the wanted real servers that get no new connections because they have too many: from
// Upper on, until there are fewer than Lower (ip_vs_bind_dest, ip_vs_unbind_dest). IPVS does not tell which
// these are. So one that has fewer than Upper is full if the last reading found it full. want and the
// counters are sorted.
func fullReals(last reals, want kernel.Reals, c kernel.Counters) reals {
	full := reals{}
	have := c.Reals
	for _, w := range want.All() {
		if w.Upper == 0 {
			continue
		}
		for len(have) > 0 && have[0].Key.Compare(w.Key) < 0 {
			have = have[1:]
		}
		if len(have) == 0 || have[0].Key != w.Key {
			continue
		}
		_, was := last[w.Key]
		n := uint64(have[0].Active) + uint64(have[0].Inactive)
		is := n >= uint64(w.Upper)
		switch {
		case c.KnowsFull:
			is = have[0].Full
		case is || !was:
		case w.Lower != 0:
			is = n >= uint64(w.Lower)
		default:
			is = 4*n >= 3*uint64(w.Upper)
		}
		if is {
			full[w.Key] = struct{}{}
		}
	}
	return full
}

// limited reports whether a real server has a threshold.
func limited(want kernel.Reals) bool {
	for _, w := range want.All() {
		if w.Upper != 0 {
			return true
		}
	}
	return false
}

package plan

import (
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// attests says whether a virtual server is as the record has it: scheduler, flags,
// timeout and netmask are equal, and every real server masquerades. A different one,
// which another program made in its place, stays foreign.
func attests(made, have *kernel.Virtual, reals []kernel.Real) bool {
	if made == nil || *made != *have {
		return false
	}
	return !slices.ContainsFunc(realsOf(reals, have.Key), func(r kernel.Real) bool { return r.Forward != kernel.Masquerade })
}

// ChangesOwned says whether some op may change which virtual servers are owned.
func ChangesOwned(n kernel.Names, ops []kernel.Op) bool {
	return slices.ContainsFunc(ops, func(o kernel.Op) bool {
		switch v := o.Object.(type) {
		case kernel.Virtual:
			return true
		case kernel.Entry:
			return n.IsSet(v.Set, kernel.IPv4, kernel.VirtualServer) || n.IsSet(v.Set, kernel.IPv6, kernel.VirtualServer)
		}
		return false
	})
}

// Making returns the owned virtual servers as they will be after ops, sorted. It is nil
// if ops add or change none.
func Making(o *kernel.Observed, ops []kernel.Op) []kernel.Virtual {
	var making []kernel.Virtual
	for _, op := range ops {
		if v, ok := op.Object.(kernel.Virtual); ok && op.Verb != kernel.Remove {
			making = append(making, v)
		}
	}
	if making == nil {
		return nil
	}
	making = append(making, Made(o)...)
	slices.SortStableFunc(making, kernel.Virtual.Compare)
	return slices.CompactFunc(making, func(a, b kernel.Virtual) bool { return a.Key == b.Key }) // the first is the op's
}

// Made returns the owned virtual servers that exist, which a Record remembers. If all
// are owned it is the reading's own slice.
func Made(o *kernel.Observed) []kernel.Virtual {
	own := ownershipOf(o)
	foreign := slices.IndexFunc(o.Virtuals, func(v kernel.Virtual) bool { return !own.has(&v) })
	if foreign < 0 {
		return o.Virtuals
	}
	own = ownershipOf(o)
	return keep(o.Virtuals, func(v kernel.Virtual) bool { return own.has(&v) })
}

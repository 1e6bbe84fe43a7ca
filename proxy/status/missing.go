package status

import (
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// missing finds wanted objects that the counters do not have. Ask in the order of
// keys. The zero value finds nothing.
type missing struct {
	counted  bool
	virtuals []kernel.VirtualCounters
	reals    []kernel.RealCounters // those not before the last key asked for
}

func missingOf(in Input) missing {
	return missing{counted: in.Counted && !in.Snapshot.ByRules(), virtuals: in.Counters.Virtuals, reals: in.Counters.Reals}
}

func (m *missing) virtual(k kernel.VirtualKey) bool {
	if !m.counted {
		return false
	}
	_, found := slices.BinarySearchFunc(m.virtuals, k, func(v kernel.VirtualCounters, k kernel.VirtualKey) int {
		return v.Key.Compare(k)
	})
	return !found
}

func (m *missing) real(k kernel.RealKey) bool {
	if !m.counted {
		return false
	}
	for len(m.reals) > 0 && m.reals[0].Key.Compare(k) < 0 {
		m.reals = m.reals[1:]
	}
	return len(m.reals) == 0 || m.reals[0].Key != k
}

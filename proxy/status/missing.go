package status

import (
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// missing says what of the wanted state the counters do not show, asked in the order
// of keys. Its zero knows nothing, and then nothing is missing.
type missing struct {
	counted  bool
	virtuals []kernel.VirtualCounters
	reals    []kernel.RealCounters // from the last one asked for on
}

func missingOf(in Input) missing {
	return missing{counted: in.Counted, virtuals: in.Counters.Virtuals, reals: in.Counters.Reals}
}

func (m *missing) virtual(k kernel.VirtualKey) bool {
	if !m.counted {
		return false
	}
	_, found := slices.BinarySearchFunc(m.virtuals, k, func(v kernel.VirtualCounters, k kernel.VirtualKey) int { return v.Key.Compare(k) })
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

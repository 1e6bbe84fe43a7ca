package status

import (
	"context"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// Counter reads the kernel's counters: those of all virtual and real servers,
// whoever made them.
type Counter interface {
	Read(context.Context) (Counters, error)
}

// Counters is one reading. Its zero has none: all counts are 0 then.
type Counters struct {
	Virtuals  []VirtualCount // sorted by key
	Reals     []RealCount    // sorted by key
	Conntrack *Conntrack     // nil when it is not known
}

// VirtualCount is what a virtual server has seen since it was made.
type VirtualCount struct {
	Key kernel.VirtualKey
	Traffic
}

// RealCount is a real server's connections now.
type RealCount struct {
	Key   kernel.RealKey
	Conns kernel.Conns
}

// virtual is what is counted for a virtual server.
func (c Counters) virtual(k kernel.VirtualKey) Traffic {
	i, found := slices.BinarySearchFunc(c.Virtuals, k, func(v VirtualCount, k kernel.VirtualKey) int { return v.Key.Compare(k) })
	if !found {
		return Traffic{}
	}
	return c.Virtuals[i].Traffic
}

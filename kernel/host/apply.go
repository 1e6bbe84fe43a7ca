package host

import (
	"context"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

// Apply carries a plan out in its order, neighbouring ops of one adapter in one
// call, and goes on past errors. What needs an op that failed is left out, with
// an error that says so. The error, if any, is a *kernel.ApplyError.
func (k *Kernel) Apply(ctx context.Context, p kernel.Plan) error {
	// A plan that was begun is finished: half of one serves nobody.
	ctx = context.WithoutCancel(ctx)
	k.recorded = kernel.Record{}
	defer k.applied.begin(len(p.Ops))()
	return plan.Carry(p, k.o.Names, sameAdapter, func(ops []kernel.Op) []error {
		kind := ops[0].Object.Kind()
		defer k.applied.run(len(ops), k.messages(kind))()
		return k.adapter(kind)(ctx, ops)
	})
}

// adapter carries out ops on objects of its kinds, and gives an error for each.
type adapter func(context.Context, []kernel.Op) []error

func (k *Kernel) adapter(kind kernel.Kind) adapter {
	plain := func(apply func([]kernel.Op) []error) adapter {
		return func(_ context.Context, ops []kernel.Op) []error { return apply(ops) }
	}
	switch adapterOf[kind] {
	case toSysctl:
		return plain(k.sysctls.Apply)
	case toIPSet:
		return plain(k.sets.Apply)
	case toIPTables:
		return k.tables.Apply
	case toLink:
		return plain(k.links.Apply)
	case toTimeouts:
		return plain(k.setTimeouts)
	case toConntrack:
		return plain(k.flows.Apply)
	default:
		return plain(k.ipvs.Apply)
	}
}

const (
	toSysctl = iota
	toIPSet
	toIPTables
	toLink
	toIPVS
	toConntrack
	toTimeouts
)

// adapterOf says which adapter knows a kind.
var adapterOf = [...]int{
	kernel.KindSysctl:   toSysctl,
	kernel.KindSet:      toIPSet,
	kernel.KindEntry:    toIPSet,
	kernel.KindSwap:     toIPSet,
	kernel.KindChain:    toIPTables,
	kernel.KindLink:     toLink,
	kernel.KindAddr:     toLink,
	kernel.KindRoute:    toLink,
	kernel.KindNeighbor: toLink,
	kernel.KindVirtual:  toIPVS,
	kernel.KindReal:     toIPVS,
	kernel.KindFlow:     toConntrack,
	kernel.KindTimeouts: toTimeouts,
}

func sameAdapter(a, b kernel.Kind) bool { return adapterOf[a] == adapterOf[b] }

package host

import (
	"context"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

// Apply carries a plan out in its order, and goes on past errors. Neighbouring ops of
// one adapter are one call. Ops whose prerequisite failed are left out, with an error
// that says so. The error, if any, is a *kernel.ApplyError.
func (k *Kernel) Apply(ctx context.Context, p kernel.Plan) error {
	// A plan that was begun is finished: half a plan serves no traffic.
	ctx = context.WithoutCancel(ctx)
	k.recorded = kernel.Record{}
	defer k.applied.begin(len(p.Ops))()
	return plan.Carry(p, k.o.Names, k.sameAdapter, func(ops []kernel.Op) []error {
		by := k.adapterOf(ops[0].Object.Kind())
		defer k.applied.run(len(ops), k.messages(by))()
		return k.adapters[by](ctx, ops)
	})
}

// adapter carries out ops on objects of its kinds and returns an error for each.
type adapter func(context.Context, []kernel.Op) []error

func (k *Kernel) openAdapters() {
	plain := func(apply func([]kernel.Op) []error) adapter {
		return func(_ context.Context, ops []kernel.Op) []error { return apply(ops) }
	}
	k.adapters = [kernel.NumAdapters]adapter{
		kernel.SysctlAdapter:    plain(k.sysctls.Apply),
		kernel.IPSetAdapter:     k.limits.beside(plain(k.sets.Apply)),
		kernel.IPTablesAdapter:  k.limits.beside(k.tables.Apply), // it starts programs
		kernel.OtherTables:      k.applyOthers,
		kernel.LinkAdapter:      plain(k.links.Apply),
		kernel.IPVSAdapter:      plain(k.ipvs.Apply),
		kernel.IPVSTimeouts:     plain(k.setTimeouts),
		kernel.IPVSSync:         plain(k.setSync),
		kernel.ConntrackAdapter: plain(k.flows.Apply),
	}
}

// adapterOf returns what carries out ops of a kind. kernel/nft does sets and chains together, so that what is between
// two steps of another adapter is one transaction.
func (k *Kernel) adapterOf(kind kernel.Kind) kernel.Adapter {
	a := kernel.Rows[kind].Adapter
	if k.o.Native && a == kernel.IPSetAdapter {
		return kernel.IPTablesAdapter
	}
	return a
}

func (k *Kernel) sameAdapter(a, b kernel.Kind) bool { return k.adapterOf(a) == k.adapterOf(b) }

package host

import (
	"context"

	"github.com/svcproxy/svcproxy/kernel"
)

// Apply carries a plan out in its order, neighbouring ops of one adapter in one
// call, and goes on past errors. What needs an op that failed is left out, with
// an error that says so. The error, if any, is a *kernel.ApplyError.
func (k *Kernel) Apply(ctx context.Context, p kernel.Plan) error {
	// A plan that was begun is finished: half of one serves nobody.
	ctx = context.WithoutCancel(ctx)
	errs := make([]error, len(p.Ops))
	dependents := kernel.Dependents{Names: k.o.Names}
	for start := 0; start < len(p.Ops); {
		apply := k.adapter(p.Ops[start].Object.Kind())
		end := start + 1
		for end < len(p.Ops) && sameAdapter(p.Ops[start].Object.Kind(), p.Ops[end].Object.Kind()) {
			end++
		}
		run(ctx, apply, p.Ops[start:end], errs[start:end], &dependents)
		start = end
	}
	return kernel.Failures(p.Ops, errs)
}

// run carries out what has not lost what it needs.
func run(ctx context.Context, apply adapter, ops []kernel.Op, errs []error, d *kernel.Dependents) {
	var going []kernel.Op
	var at []int
	for i, o := range ops {
		if errs[i] = d.Lost(o); errs[i] == nil {
			going, at = append(going, o), append(at, i)
		}
	}
	if len(going) > 0 {
		for i, err := range apply(ctx, going) {
			errs[at[i]] = err
		}
	}
	d.Note(ops, errs)
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
)

// adapterOf says which adapter knows a kind.
var adapterOf = [...]int{
	kernel.KindSysctl:  toSysctl,
	kernel.KindSet:     toIPSet,
	kernel.KindEntry:   toIPSet,
	kernel.KindSwap:    toIPSet,
	kernel.KindChain:   toIPTables,
	kernel.KindLink:    toLink,
	kernel.KindAddr:    toLink,
	kernel.KindVirtual: toIPVS,
	kernel.KindReal:    toIPVS,
}

func sameAdapter(a, b kernel.Kind) bool { return adapterOf[a] == adapterOf[b] }

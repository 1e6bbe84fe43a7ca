package proxy

import (
	"context"
	"fmt"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

// cleanRounds is how often Clean tries what failed; a rule that another program
// has just added may stand in the way of a set once.
const cleanRounds = 3

// Cleaning says how to clean up.
type Cleaning struct {
	Dry bool // remove nothing
	// Leftovers are removed as well: the virtual servers that kube-proxy left.
	Leftovers bool
}

// Clean removes what is ours from a kernel until a reading shows nothing of it.
// planned is told beforehand what that is; if dry that is all.
func Clean(ctx context.Context, k Kernel, c Cleaning, planned func(kernel.Plan) error) error {
	var failed error
	var before kernel.Observed
	for round := 0; ; round++ {
		have, err := k.Read(ctx)
		if err != nil {
			return err
		}
		if round > 0 { // what a first plan could not remove is ours still
			have.Owned, have.Record.Left = plan.Owned(&before), before.Record.Left
		}
		p := plan.Diff(kernel.State{Policy: kernel.Policy{TakeLeft: c.Leftovers}}, have)
		before = have
		if round == 0 {
			if err := planned(p); err != nil {
				return err
			}
		}
		switch {
		case p.Empty() || c.Dry:
			return nil
		case round < cleanRounds:
			failed = k.Apply(ctx, p)
		case failed != nil:
			return failed
		default:
			return fmt.Errorf("%d objects come back as often as they are removed, the first is %s", len(p.Ops), p.Ops[0].Object)
		}
	}
}

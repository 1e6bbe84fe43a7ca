package proxy

import (
	"context"
	"fmt"

	"github.com/svcproxy/svcproxy/kernel"
)

// cleanRounds is how often Clean tries what failed; a rule that another program
// has just added may stand in the way of a set once.
const cleanRounds = 3

// Clean removes what is ours from a kernel until a reading shows nothing of it.
// planned is told beforehand what that is; with dry that is all.
func Clean(ctx context.Context, k Kernel, dry bool, planned func(kernel.Plan) error) error {
	var failed error
	for round := 0; ; round++ {
		have, err := k.Read(ctx)
		if err != nil {
			return err
		}
		p := kernel.Diff(kernel.State{}, have)
		if round == 0 {
			if err := planned(p); err != nil {
				return err
			}
		}
		switch {
		case p.Empty() || dry:
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

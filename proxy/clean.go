package proxy

import (
	"context"
	"fmt"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

// cleanRounds is how often Clean tries. A set cannot be removed while another program's
// rule uses it, and such a rule may have been added between reading and removing.
const cleanRounds = 3

// Cleaning are the options of Clean.
type Cleaning struct {
	Dry       bool // remove nothing
	Leftovers bool // also remove virtual servers and rules that kube-proxy left
}

// Clean removes our objects from a kernel until a reading shows none. It passes the
// first plan to planned before that, and ends there if c.Dry is set.
func Clean(ctx context.Context, k Kernel, c Cleaning, planned func(kernel.Plan) error) error {
	var failed error
	var before kernel.Observed
	for round := 0; ; round++ {
		have, err := k.Read(ctx)
		if err != nil {
			return err
		}
		if round > 0 { // what the first plan could not remove is still ours
			have.Owned, have.Record.Left = plan.Owned(&before), before.Record.Left
		}
		want := kernel.State{Policy: kernel.Policy{TakeLeft: c.Leftovers}}
		if !c.Leftovers {
			want.Chains = plan.LeftRules(&have)
		}
		p := plan.Diff(want, have)
		if len(want.Chains) > 0 {
			p.Warnings = append(p.Warnings, fmt.Sprintf("%d chains of rules stay: kube-proxy in mode iptables wrote them after svcproxy and may serve with them; cleanup --leftovers removes them", len(want.Chains)))
		}
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

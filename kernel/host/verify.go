package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

// Verify reports whether a shard of the kernel is as known, except for connections. Where
// there are many objects it compares them while the kernel lists them. It stops at the
// first kind that differs, and does not say which. It may also notice a difference
// outside the shard, such as the size in a set's header.
func (k *Kernel) Verify(ctx context.Context, known *kernel.Observed, shard plan.Shard) (bool, error) {
	now := kernel.Observed{Names: k.o.Names, Node: known.Node}
	if shard.HasVIPs() {
		if err := k.readVIPs(&now); err != nil {
			return false, err
		}
	}
	if err := errors.Join(k.readChains(ctx, &now), k.readFew(&now)); err != nil {
		return false, err
	}
	now.Sets = known.Sets // sets.Verify compares them
	now.Sort()
	if !plan.SameFew(known, &now) || shard.HasVIPs() && !plan.SameVIPs(known, &now) {
		return false, nil
	}
	same, err := k.sets.Verify(k.o.Names, k.limits.of(&known.State, false), shard.HasEntries)
	if err != nil {
		return false, fmt.Errorf("reading ipsets: %w", err)
	}
	if same {
		if same, err = k.limits.verify(&known.State, shard.HasEntries); err != nil {
			return false, fmt.Errorf("reading limits: %w", err)
		}
	}
	if same && shard.HasVirtuals() {
		same, err = k.ipvs.VerifyVirtuals(&known.State)
	}
	if same && err == nil {
		same, err = k.ipvs.VerifyReals(&known.State, shard.HasReals)
	}
	if err != nil {
		return false, fmt.Errorf("reading IPVS: %w", err)
	}
	return same, nil
}

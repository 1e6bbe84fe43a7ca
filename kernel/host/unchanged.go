package host

import (
	"context"
	"fmt"

	"github.com/svcproxy/svcproxy/kernel"
)

// Unchanged says whether a part of the kernel is as known, connections apart. Of
// what there is much of it compares what the kernel lists as it comes, and stops at
// the first kind that differs: it says that something is otherwise, not what. What
// it notices beside the part, as a set's size in its header, counts too.
func (k *Kernel) Unchanged(ctx context.Context, known *kernel.Observed, part kernel.Part) (bool, error) {
	now := kernel.Observed{Names: k.o.Names, Node: known.Node}
	if part.HasVIPs() {
		if err := k.readVIPs(&now); err != nil {
			return false, err
		}
	}
	if err := k.readFew(ctx, &now); err != nil {
		return false, err
	}
	now.Sets = known.Sets // sets.Unchanged compares them
	now.Sort()
	if !kernel.SameFew(known, &now) || part.HasVIPs() && !kernel.SameVIPs(known, &now) {
		return false, nil
	}
	same, err := k.sets.Unchanged(k.o.Names, &known.State, part.HasEntries)
	if err != nil {
		return false, fmt.Errorf("reading ipsets: %w", err)
	}
	if same && part.HasVirtuals() {
		same, err = k.ipvs.VirtualsUnchanged(&known.State, known.FWMark)
	}
	if same && err == nil {
		same, err = k.ipvs.RealsUnchanged(&known.State, part.HasReals)
	}
	if err != nil {
		return false, fmt.Errorf("reading IPVS: %w", err)
	}
	return same, nil
}

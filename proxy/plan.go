package proxy

import (
	"context"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

// Plan is what the loop would do at once, once it has asked other hosts about VIPs:
// Diff for a single look. Without a Prober no host is asked.
func Plan(ctx context.Context, ask Prober, want kernel.State, have kernel.Observed) kernel.Plan {
	if ask == nil {
		want.Policy.Probe = false
	}
	first := plan.Diff(want, have)
	if len(first.Probes) == 0 {
		return first
	}
	have.Probed = first.Probes
	for _, family := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		claims := slices.DeleteFunc(slices.Clone(first.Probes), func(c kernel.Claim) bool { return kernel.FamilyOf(c.Addr) != family })
		for some := range slices.Chunk(claims, mostProbed) {
			taken, _ := ask.Probe(ctx, some) // who cannot ask binds, as the loop does
			have.Taken = append(have.Taken, taken...)
		}
	}
	slices.SortFunc(have.Taken, func(a, b kernel.Taken) int { return a.Compare(b.Claim) })
	return plan.Diff(want, have)
}

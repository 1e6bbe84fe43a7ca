package proxy

import (
	"context"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

// Plan returns what the loop would do, with the answers of other hosts about VIPs. If
// ask is nil no host is asked.
func Plan(ctx context.Context, ask Prober, want kernel.State, have kernel.Observed) kernel.Plan {
	if ask == nil {
		want.Policy.Probe = false
	}
	first := plan.Once(want, have)
	if len(first.Probes) == 0 {
		return first
	}
	now := kernel.Now{Probed: first.Probes}
	for _, family := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		claims := slices.DeleteFunc(slices.Clone(first.Probes), func(c kernel.Claim) bool {
			return kernel.FamilyOf(c.Addr) != family
		})
		for batch := range slices.Chunk(claims, probeBatch) {
			taken, _ := ask.Probe(ctx, batch) // after an error the VIPs are bound, as in the loop
			now.Taken = append(now.Taken, taken...)
		}
	}
	kernel.SortFunc(now.Taken, func(a, b kernel.Taken) int { return a.Compare(b.Claim) })
	p, _ := plan.Diff(want, have, kernel.Memory{}, now)
	return p
}

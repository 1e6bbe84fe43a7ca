package plan

import "github.com/svcproxy/svcproxy/kernel"

// sameVirtual reports whether a virtual server is as it is wanted, with these real servers. One with rr is, where
// wrr is wanted and rr does the same: all weights are equal, but for those that are 0, which both pass over (Linux's
// ip_vs_rr.c and ip_vs_wrr.c). To change a scheduler takes Linux about 20 ms (synchronize_rcu), in which the virtual
// server refuses new connections, and one waits for the other: for 5,000 that kube-proxy or an older svcproxy left
// with rr that is 100 s. So it is changed when weights first differ.
func sameVirtual(want, have *kernel.Virtual, reals kernel.Reals) bool {
	if *want == *have {
		return true
	}
	inTurn := *want
	inTurn.Scheduler = "rr"
	return want.Scheduler == "wrr" && inTurn == *have && equalWeights(reals.Of(want.Key))
}

// equalWeights reports whether all weights that are not 0 are equal.
func equalWeights(reals []kernel.Real) bool {
	weight := uint32(0)
	for i := range reals {
		switch w := reals[i].Weight; {
		case w == 0 || w == weight:
		case weight != 0:
			return false
		default:
			weight = w
		}
	}
	return true
}

package explain

import (
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// dividing are the schedulers whose shares do not depend on connections: true if weights
// count, false if all real servers with a weight get the same. sh and mh choose by the
// client's address, so the shares are those of many clients. dh chooses by the VIP.
var dividing = map[string]bool{"rr": false, "wrr": true, "sh": true, "mh": true}

// shares returns the share of new connections of each real server, nil if the scheduler
// decides by connections.
func shares(scheduler string, reals []kernel.Real) []*float64 {
	all := make([]*float64, len(reals))
	weighed, divides := dividing[scheduler]
	if scheduler != "fo" && !divides {
		return all
	}
	weights := make([]float64, len(reals))
	sum := 0.0
	for i, r := range reals {
		switch {
		case r.Weight == 0:
		case scheduler == "fo":
			if i == heaviest(reals) {
				weights[i] = 1
			}
		case weighed:
			weights[i] = float64(r.Weight)
		default:
			weights[i] = 1
		}
		sum += weights[i]
	}
	for i := range reals {
		share := 0.0
		if sum > 0 {
			share = weights[i] / sum
		}
		all[i] = &share
	}
	return all
}

// heaviest returns the index of the first real server with the highest weight, which gets
// everything from scheduler fo.
func heaviest(reals []kernel.Real) int {
	most := slices.MaxFunc(reals, func(a, b kernel.Real) int { return int(int64(a.Weight) - int64(b.Weight)) })
	return slices.IndexFunc(reals, func(r kernel.Real) bool { return r.Weight == most.Weight })
}

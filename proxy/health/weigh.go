package health

import (
	"github.com/svcproxy/svcproxy/sources"
)

// A share of a small weight is no whole number. If an endpoint may get a share, the weights of the whole service are
// therefore multiplied: by rampSteps for a slow start, by 100 for a percentage. Schedulers look at proportions alone.
const percentScale = 100

// scale returns the factor for the weights of the service. It depends as little as possible on the state of the
// moment, since each change of it writes all real servers of the service.
func (j *judge) scale() uint32 {
	factor := uint32(1)
	if c := j.service.HealthCheck; checked(j.service) {
		switch {
		case c.Probe.Type == sources.CheckAgent:
			factor = percentScale
		case c.SlowStart > 0:
			factor = rampSteps
		}
	}
	most := uint32(1)
	for i := range j.slots {
		x := &j.slots[i]
		if x.percent != 100 && x.percent != 0 {
			factor = percentScale
		}
		most = max(most, x.weight, x.weight*x.percent/100)
	}
	return max(1, min(factor, maxWeight/most))
}

// weightOf returns the weight of a slot in the table. One that serves has at least 1.
func (x *slot) weightOf(scale uint32) uint32 {
	if !x.serving() {
		return 0
	}
	w := uint64(x.weight) * uint64(scale) * uint64(x.percent) * uint64(x.step) / (100 * rampSteps)
	return uint32(min(max(w, 1), maxWeight))
}

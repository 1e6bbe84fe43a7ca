package metrics

import (
	"sync"

	"github.com/svcproxy/svcproxy/proxy/status"
)

// serviceTraffic keeps the counters of services from falling. The kernel counts for a virtual server from
// when it is made, so a service's sum falls when one of its addresses goes. Prometheus would take the lower
// value for a restart at zero and count the traffic of the other addresses once more.
type serviceTraffic struct {
	mu       sync.Mutex
	services map[string]serviceSum
	round    uint64
}

// serviceSum is what is known of one service.
type serviceSum struct {
	last status.Traffic // of the last reading
	gone status.Traffic // of virtual servers that are gone
	seen uint64         // the round of the last reading
}

// update records the counters of all services and returns their sums in the same order. It forgets services
// that are gone.
func (t *serviceTraffic) update(services []status.Service) []status.Traffic {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.services == nil {
		t.services = make(map[string]serviceSum, len(services))
	}
	t.round++
	sums := make([]status.Traffic, len(services))
	for i := range services {
		s := &services[i]
		if !hasSeries(s) {
			continue
		}
		sum := t.services[s.Name]
		sum.gone, sum.last, sum.seen = sum.gone.Plus(decrease(sum.last, s.Traffic)), s.Traffic, t.round
		t.services[s.Name] = sum
		sums[i] = sum.last.Plus(sum.gone)
	}
	for name, sum := range t.services {
		if sum.seen != t.round {
			delete(t.services, name)
		}
	}
	return sums
}

// decrease is by how much each counter fell; 0 for those that did not.
func decrease(before, now status.Traffic) status.Traffic {
	less := func(before, now status.Count) status.Count { return max(before, now) - now }
	return status.Traffic{
		Connections: uint64(less(status.Count(before.Connections), status.Count(now.Connections))),
		InPackets:   less(before.InPackets, now.InPackets), OutPackets: less(before.OutPackets, now.OutPackets),
		InBytes: less(before.InBytes, now.InBytes), OutBytes: less(before.OutBytes, now.OutBytes),
	}
}

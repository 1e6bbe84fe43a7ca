package metrics

import (
	"sync"

	"github.com/svcproxy/svcproxy/proxy/status"
)

// ledger keeps the counters of services from falling. The kernel counts for a virtual server from when it is
// made: when one of a service's addresses goes, so does its part of the sum, and what then looks like a
// counter that began anew would be taken for as much traffic as all others had since they were made.
type ledger struct {
	mu    sync.Mutex
	pages map[string]page
	round uint64
}

// page is what is known of one service.
type page struct {
	last status.Traffic // as read last
	gone status.Traffic // of addresses that were taken away
	seen uint64         // in this round last
}

// post notes the counters of all services and gives what is to be told of each, parallel to them. Those of
// a service that is gone are forgotten.
func (l *ledger) post(services []status.Service) []status.Traffic {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pages == nil {
		l.pages = make(map[string]page, len(services))
	}
	l.round++
	told := make([]status.Traffic, len(services))
	for i := range services {
		s := &services[i]
		if !hasSeries(s) {
			continue
		}
		p := l.pages[s.Name]
		p.gone, p.last, p.seen = p.gone.Plus(fallen(p.last, s.Traffic)), s.Traffic, l.round
		l.pages[s.Name] = p
		told[i] = p.last.Plus(p.gone)
	}
	for name, p := range l.pages {
		if p.seen != l.round {
			delete(l.pages, name)
		}
	}
	return told
}

// fallen is by how much counters are less than they were.
func fallen(before, now status.Traffic) status.Traffic {
	less := func(before, now uint64) uint64 { return max(before, now) - now }
	return status.Traffic{
		Connections: less(before.Connections, now.Connections),
		InPackets:   less(before.InPackets, now.InPackets), OutPackets: less(before.OutPackets, now.OutPackets),
		InBytes: less(before.InBytes, now.InBytes), OutBytes: less(before.OutBytes, now.OutBytes),
	}
}

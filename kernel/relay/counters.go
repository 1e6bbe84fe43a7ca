package relay

import (
	"sync/atomic"

	"github.com/svcproxy/svcproxy/kernel"
)

// traffic counts as kernel.Traffic. TCP has no packets here: the kernel joins them before the relay
// reads.
type traffic struct{ conns, inPackets, outPackets, inBytes, outBytes atomic.Uint64 }

func (t *traffic) read() kernel.Traffic {
	return kernel.Traffic{
		Conns: t.conns.Load(), InPackets: t.inPackets.Load(), OutPackets: t.outPackets.Load(),
		InBytes: t.inBytes.Load(), OutBytes: t.outBytes.Load(),
	}
}

// meters are the counters of a connection's endpoint, of its virtual server and of the relay.
type meters [3]*traffic

// in counts what a client has sent.
func (m meters) in(packets, bytes uint64) {
	for _, t := range m {
		t.inPackets.Add(packets)
		t.inBytes.Add(bytes)
	}
}

// out counts what a client was sent.
func (m meters) out(packets, bytes uint64) {
	for _, t := range m {
		t.outPackets.Add(packets)
		t.outBytes.Add(bytes)
	}
}

// stats are the relay's own counters.
type stats struct {
	streams, flows                atomic.Int64
	retries, unreachable, dropped atomic.Uint64
	shortages                     [numShortages]atomic.Uint64
}

// Stats counts what has no place in kernel.Counters.
type Stats struct {
	// Streams is how many TCP connections there are, also those whose endpoint is being dialed,
	// and Flows how many flows over UDP.
	Streams, Flows int
	// Free is how many more file descriptors the relay may use.
	Free int
	// Retries counts endpoints that did not answer or refused, so that another was tried.
	Retries uint64
	// Unreachable counts connections and flows for which no endpoint was found.
	Unreachable uint64
	// Dropped counts datagrams that were lost here.
	Dropped uint64
	// Shortages counts, by kind, how often a limit was met.
	Shortages [numShortages]uint64
}

// Stats may be called at any time.
func (r *Relay) Stats() Stats {
	st := Stats{
		Streams: int(r.stats.streams.Load()), Flows: int(r.stats.flows.Load()), Free: int(r.files.free.Load()),
		Retries: r.stats.retries.Load(), Unreachable: r.stats.unreachable.Load(), Dropped: r.stats.dropped.Load(),
	}
	for i := range st.Shortages {
		st.Shortages[i] = r.stats.shortages[i].Load()
	}
	return st
}

// Counters reads the counters of virtual servers, and the connections of real ones. They are
// current: bytes count when they have been passed on.
func (r *Relay) Counters() kernel.Counters {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := kernel.Counters{Total: r.total.read(), KnowsFull: true}
	for _, s := range r.sorted() {
		all.Virtuals = append(all.Virtuals, kernel.VirtualCounters{Key: s.key, Traffic: s.traffic.read()})
		s.read(func(o kernel.Real, c kernel.Conns, full bool) {
			all.Reals = append(all.Reals, kernel.RealCounters{Key: o.Key, Weight: o.Weight, Active: c.Active,
				Inactive: c.Inactive, Full: full})
		})
	}
	return all
}

// Traffic reads the traffic of the real servers of these virtual servers, in the given order and
// then by address. A virtual server that does not exist has none.
func (r *Relay) Traffic(virtuals []kernel.VirtualKey) (all []kernel.RealTraffic) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range virtuals {
		s := r.services[k]
		if s == nil {
			continue
		}
		s.mu.Lock()
		for _, e := range s.endpoints {
			all = append(all, kernel.RealTraffic{Key: kernel.RealKey{Virtual: k, Addr: e.addr}, Traffic: e.traffic.read()})
		}
		s.mu.Unlock()
	}
	return all
}

package mode

import (
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// Virtuals returns one virtual server for each front, sorted.
func Virtuals(f *frontend.Frontends) []kernel.Virtual {
	virtuals := make([]kernel.Virtual, len(f.Fronts))
	for i := range f.Fronts {
		virtuals[i] = Virtual(f, &f.Fronts[i])
	}
	return virtuals
}

// Virtual returns the virtual server of one front.
func Virtual(f *frontend.Frontends, x *frontend.Front) kernel.Virtual {
	v := kernel.Virtual{
		Key:       x.Key,
		Scheduler: f.Scheduler(x),
		Netmask:   uint8(x.Key.Family().Bits()),
	}
	if s := f.Service(x); s.Affinity == sources.AffinityClientIP {
		v.Flags |= kernel.FlagPersistent
		v.Timeout = uint32(s.AffinityTimeout / time.Second)
	}
	v.Flags |= kernel.SchedulerFlags(v.Scheduler)
	return v
}

// AppendReals appends the real servers of one front. They masquerade.
func AppendReals(reals []kernel.Real, f *frontend.Frontends, x *frontend.Front) []kernel.Real {
	for _, b := range f.Backends(x) {
		reals = append(reals, kernel.Real{
			Key:     kernel.RealKey{Virtual: x.Key, Addr: f.Addr(int(x.Service), b)},
			Weight:  f.Weight(int(x.Service), b),
			Forward: kernel.Masquerade,
		})
	}
	return reals
}

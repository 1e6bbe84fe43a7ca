package mode

import (
	"cmp"
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
		v.Netmask = AffinityPrefix(s, x.Key.Family())
	}
	v.Flags |= schedulerFlags(f.Service(x), v.Scheduler)
	if f.Service(x).OnePacket && x.Key.Proto == kernel.UDP {
		v.Flags |= kernel.FlagOnePacket
	}
	return v
}

// AffinityPrefix returns the prefix length of the networks whose clients have one endpoint.
func AffinityPrefix(s *sources.Service, f kernel.Family) uint8 {
	own := s.AffinityPrefix4
	if f == kernel.IPv6 {
		own = s.AffinityPrefix6
	}
	return cmp.Or(own, uint8(f.Bits()))
}

// schedulerFlags returns the flags that the service gives its scheduler, else those that it has by default.
func schedulerFlags(s *sources.Service, scheduler string) (flags uint32) {
	if s.SchedulerFlags == 0 {
		return kernel.SchedulerFlags(scheduler)
	}
	if s.SchedulerFlags&sources.FlagFallback != 0 {
		flags |= kernel.FlagSched1
	}
	if s.SchedulerFlags&sources.FlagPort != 0 {
		flags |= kernel.FlagSched2
	}
	return flags
}

// AppendReals appends the real servers of one front. They masquerade.
func AppendReals(reals []kernel.Real, f *frontend.Frontends, x *frontend.Front) []kernel.Real {
	for _, b := range f.Backends(x) {
		upper, lower := f.Limits(int(x.Service), b)
		reals = append(reals, kernel.Real{
			Key:     kernel.RealKey{Virtual: x.Key, Addr: f.Addr(int(x.Service), b)},
			Weight:  f.Weight(int(x.Service), b),
			Forward: kernel.Masquerade,
			Upper:   upper, Lower: lower,
		})
	}
	return reals
}

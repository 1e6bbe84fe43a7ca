package health

import (
	"net/netip"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// FromKernel returns the verdicts that targets start with after a restart, so that it moves no connection. virtuals and
// reals are what the kernel has of ours, in any order, and what rules have instead of them (plan.Translated).
//
// An endpoint that the table gives a weight is up if its real server has one, and down if its real server has weight
// 0. Without a real server it is new: its target is not in the result, and Initial decides.
//
// Some endpoints that are down have no real server: those that are cut, as one whose agent says maint, and
// all of them in rules, which have no weight 0. Such an endpoint is down if its virtual server is there
// without it, unless it may be absent because it is on another node or in another zone. The weight of an
// endpoint with an override says nothing of its health, not even if the override has ended since, and neither
// does that of one whose agent took it out. agents have what was said before the restart.
func FromKernel(t sources.Table, o Overrides, agents Agents, virtuals []kernel.Virtual,
	reals kernel.Reals) map[Key]Verdict {
	var was *reading // made for the first service with a check
	overrule := newMatcher(o, time.Time{})
	found := map[Key]Verdict{}
	var intern interned
	for i := range t.Services.Len() {
		s := t.Services.At(i)
		if !checked(s) {
			continue
		}
		if was == nil {
			was = newReading(virtuals, reals)
		}
		for n := range s.Endpoints {
			e := &s.Endpoints[n]
			if !wanted(s, e) {
				continue
			}
			for k := range e.Ports {
				key, ok := intern.key(s, e, k)
				if !ok {
					continue
				}
				said := agents.of(key)
				if _, ok := found[key]; !ok && said != (Said{}) {
					found[key] = Verdict{State: said.state(Unknown, "")}
				}
				if said.decides() {
					continue
				}
				if out, weight := overrule.find(s, e, e.Ports[k].Port); out != nil || weight != nil && weight.Weight.N == 0 {
					continue
				}
				switch up, down := was.endpoint(s, e, k); {
				case up:
					found[key] = Verdict{State: said.state(Up, "")}
				case down && found[key].Phase != Up:
					found[key] = Verdict{State: said.state(Down, "as before the restart")}
				}
			}
		}
	}
	return found
}

// wanted reports whether the weight of an endpoint in the kernel tells of its health: a standby has weight 0 too.
func wanted(s *sources.Service, e *sources.Endpoint) bool {
	return e.Weight > 0 && !e.Backup && (e.Ready || s.PublishNotReadyAddresses)
}

// reading is what the kernel has, by what a service knows of it.
type reading struct {
	virtuals map[kernel.VirtualKey]kernel.Virtual
	// nodePorts are the virtual servers by protocol and port alone, since a table does not know the node's addresses.
	nodePorts map[kernel.VirtualKey][]kernel.VirtualKey
	reals     map[kernel.RealKey]uint32 // weights
}

func newReading(virtuals []kernel.Virtual, reals kernel.Reals) *reading {
	r := &reading{map[kernel.VirtualKey]kernel.Virtual{}, map[kernel.VirtualKey][]kernel.VirtualKey{},
		make(map[kernel.RealKey]uint32, reals.Len())}
	for _, v := range virtuals {
		r.virtuals[v.Key] = v
		p := anywhere(v.Key.Proto, v.Key.Port)
		r.nodePorts[p] = append(r.nodePorts[p], v.Key)
	}
	for _, x := range reals.All() {
		r.reals[x.Key] = x.Weight
	}
	return r
}

func anywhere(p kernel.Proto, port uint16) kernel.VirtualKey {
	return kernel.VirtualKey{Port: port, Proto: p}
}

// endpoint reports whether an endpoint's port had a weight in any of the service's virtual servers, or none in one.
func (r *reading) endpoint(s *sources.Service, e *sources.Endpoint, port int) (up, down bool) {
	own := e.Ports[port]
	addr := netip.AddrPortFrom(e.Addr, own.Port)
	for i := range s.Ports {
		if s.Ports[i].Name != own.Name || s.Ports[i].Protocol != own.Protocol {
			continue
		}
		for a := range s.PortAddresses(i) {
			for _, v := range r.at(a) {
				switch weight, ok := r.reals[kernel.RealKey{Virtual: v.Key, Addr: addr}]; {
				case ok && weight > 0:
					up = true
				case ok, v.Key.Family() == kernel.FamilyOf(e.Addr) && takenOut(s, v, own.Protocol):
					down = true
				}
			}
		}
	}
	return up, down
}

// at returns the virtual servers of an address of a service.
func (r *reading) at(a sources.Address) []kernel.Virtual {
	proto := kernel.Proto(a.Protocol)
	if a.Addr.IsValid() {
		if v, ok := r.virtuals[kernel.VirtualKey{Addr: a.Addr, Port: a.Port, Proto: proto}]; ok {
			return []kernel.Virtual{v}
		}
		return nil
	}
	var found []kernel.Virtual
	for _, k := range r.nodePorts[anywhere(proto, a.Port)] {
		found = append(found, r.virtuals[k])
	}
	return found
}

// takenOut reports whether an endpoint that is down was no real server of a virtual server. A virtual server without
// a scheduler is rules.
func takenOut(s *sources.Service, v kernel.Virtual, p sources.Protocol) bool {
	if s.InternalTrafficPolicy == sources.Local || s.TrafficDistribution != sources.DistributeEvenly {
		return false
	}
	return v.Scheduler == "" || p == sources.UDP || s.HealthCheck.OnDown == sources.DownCut ||
		s.HealthCheck.Probe.Type == sources.CheckAgent || !kernel.Quiesces(v.Scheduler)
}

package health

import (
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// Overlaid is a table with the verdicts and overrides applied.
type Overlaid struct {
	sources.Table
	// Unusual are the services with a group whose mode is not Normal, in the order of the table.
	Unusual []Unusual
	// Wake is when the result changes by itself, by a step of a slow start or the end of an override; zero = never.
	Wake time.Time
}

// Unusual is a service of which not simply those endpoints serve that are up.
type Unusual struct {
	Service int // index in the table
	Group
}

// Overlay returns the table with the weights that endpoints have by the verdicts and the overrides. An endpoint that
// is down has weight 0, and may be cut: see DESIGN.md. The result shares all that does not change with t, and
// is t itself if nothing does. Applied to its own result it changes nothing, with two exceptions: weights that were
// multiplied for the sake of shares would be multiplied again, and an endpoint that was split may have lost the port
// that its probe goes to.
func Overlay(t sources.Table, k Known, now time.Time) Overlaid {
	out := Overlaid{Table: t}
	j := newJudge(k, now)
	cloned := false
	for i := range t.Services.Len() {
		o := j.overlay(t.Services.At(i))
		if o.changed {
			if !cloned {
				out.Services, cloned = sources.ServicesOf(t.Services.Slice()...), true
			}
			out.Services.At(i).Endpoints = o.endpoints
		}
		for _, g := range o.unusual {
			out.Unusual = append(out.Unusual, Unusual{i, g})
		}
		out.Wake = earlier(out.Wake, o.wake)
	}
	out.Wake = earlier(out.Wake, j.overrule.ends)
	return out
}

// overlaid is one service of an Overlaid.
type overlaid struct {
	endpoints []sources.Endpoint
	changed   bool
	unusual   []Group
	wake      time.Time // of its slow starts
}

// overlay applies what is known to one service.
func (j *judge) overlay(s *sources.Service) overlaid {
	o := overlaid{endpoints: s.Endpoints}
	if !j.judge(s) {
		return o
	}
	for _, g := range j.groups {
		if g.Mode != Normal {
			o.unusual = append(o.unusual, g)
		}
	}
	o.wake = j.ramp()
	o.endpoints, o.changed = j.endpoints()
	return o
}

// ramp sets the steps of the slots that start slowly, and returns when the next step is due.
func (j *judge) ramp() (wake time.Time) {
	s := j.service
	own := j.known.Ramps[keyOf(s)]
	if len(own) == 0 || !ramps(s) {
		return wake
	}
	for i := range j.slots {
		x := &j.slots[i]
		begin, ok := own[rampKeyOf(&s.Endpoints[x.endpoint], x.port)]
		if !ok || !x.serving() {
			continue
		}
		var next time.Time
		x.step, next = rampStep(begin, s.HealthCheck.SlowStart, j.now)
		wake = earlier(wake, next)
	}
	return wake
}

// endpoints returns the endpoints with the weights of the slots; false if they are those of the service.
func (j *judge) endpoints() (list []sources.Endpoint, changed bool) {
	s, scale := j.service, j.scale()
	rest := j.slots
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		own := rest[:len(e.Ports)]
		rest = rest[len(e.Ports):]
		if !changed && as(own, scale, e) {
			continue
		}
		if !changed {
			list, changed = append(make([]sources.Endpoint, 0, len(s.Endpoints)), s.Endpoints[:i]...), true
		}
		list = append(list, pieces(e, own, scale)...)
	}
	if !changed {
		return s.Endpoints, false
	}
	return list, true
}

// as reports whether all slots are served as the endpoint is in the table.
func as(slots []slot, scale uint32, e *sources.Endpoint) bool {
	for i := range slots {
		x := &slots[i]
		if x.tableCut(e) != e.Cut || x.spared() != e.Spared || x.tableWeight(scale, e.Weight) != e.Weight {
			return false
		}
	}
	return true
}

// isCut reports whether the connections of the slot end.
func (x *slot) isCut() bool { return x.cut && !x.serving() }

// tableCut is isCut, but what is cut in the table already stays cut: it has weight 0 there, as if its source said so.
func (x *slot) tableCut(e *sources.Endpoint) bool { return x.isCut() || e.Cut }

// spared reports whether the slot serves although it is not up.
func (x *slot) spared() bool { return x.cause == Spared }

// tableWeight is weightOf, but an endpoint that is not ready keeps the weight that its source gives it.
func (x *slot) tableWeight(scale, source uint32) uint32 {
	if x.cause == ByFile {
		return source
	}
	return x.weightOf(scale)
}

// pieces returns an endpoint as its slots have it. Ports of one fate stay together; an endpoint of which one port is
// down and another one up becomes two.
func pieces(e *sources.Endpoint, slots []slot, scale uint32) []sources.Endpoint {
	if len(slots) == 0 {
		return []sources.Endpoint{*e}
	}
	var list []sources.Endpoint
	for i := range slots {
		x := &slots[i]
		w, cut, spared := x.tableWeight(scale, e.Weight), x.tableCut(e), x.spared()
		at := slices.IndexFunc(list, func(p sources.Endpoint) bool {
			return p.Weight == w && p.Cut == cut && p.Spared == spared
		})
		if at < 0 {
			at = len(list)
			list = append(list, *e)
			list[at].Weight, list[at].Cut, list[at].Spared = w, cut, spared
			list[at].Ports = make([]sources.EndpointPort, 0, len(e.Ports))
		}
		list[at].Ports = append(list[at].Ports, e.Ports[x.port])
	}
	if len(list) == 1 && len(list[0].Ports) == len(e.Ports) {
		list[0].Ports = e.Ports
	}
	return list
}

package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/sources"
)

// finish sorts and counts the parts of a service and finds its state.
func (b *builder) finish(i int) {
	s, from := &b.services[i], b.f.Table.Services.At(i)
	sources.SortStableFunc(s.Virtuals, func(a, b Virtual) int {
		return cmp.Or(cmp.Compare(a.port, b.port), cmp.Compare(a.Kind.order(), b.Kind.order()), a.Address.Compare(b.Address))
	})
	for _, e := range s.Endpoints {
		switch e.State {
		case EndpointServing:
			s.Backends.Serving++
			if e.Full {
				s.Backends.Full++
			}
		case EndpointDraining:
			s.Backends.Draining++
		default:
			s.Backends.Unused++
		}
	}
	s.State, s.Reason = b.stateOf(i, s, from)
}

// stateOf reports whether a service is served, and the reason if it is not.
func (b *builder) stateOf(i int, s *Service, from *sources.Service) (State, string) {
	if !from.Type.Serves() {
		return NotServed, "a service of type " + string(from.Type) + " has nothing to be served"
	}
	for _, v := range s.Virtuals {
		if v.Conflict != "" {
			return Conflicting, fmt.Sprintf("%s belongs to another program: %s", v.long(), v.Conflict)
		}
	}
	for _, v := range s.Virtuals {
		switch {
		case v.Missing:
			return Missing, v.long() + " is not in the kernel"
		case v.Gone > 0:
			return Missing, fmt.Sprintf("%s lacks %s in the kernel", v.long(), sources.Count(v.Gone, "real server"))
		}
	}
	if len(s.Withheld) > 0 && len(s.Virtuals) == 0 {
		return LeftOut, strings.Join(s.Withheld, "; ")
	}
	if reason := s.Health.panics(); reason != "" {
		return Panic, reason
	}
	if port, empty := b.empty[i]; empty {
		return NoBackends, whyNoBackends(s, from, port)
	}
	if len(s.Withheld) > 0 {
		return Partly, strings.Join(s.Withheld, "; ")
	}
	for _, v := range s.Virtuals {
		if v.Backends == 0 {
			return Partly, v.long() + " has no backends"
		}
	}
	return Serving, ""
}

// whyNoBackends says why a port of a service has no backends.
func whyNoBackends(s *Service, from *sources.Service, i int) string {
	where := ""
	if p := from.Ports[i]; len(from.Ports) > 1 {
		where = fmt.Sprintf(" for port %s", p.Text())
	}
	if !slices.ContainsFunc(s.Virtuals, func(v Virtual) bool { return v.port == i }) {
		return "no address of this node serves it" + where
	}
	for _, e := range s.Endpoints {
		if e.port == i {
			return fmt.Sprintf("no endpoint can be used%s: %s is %s", where, e.place(), e.why())
		}
	}
	return "no endpoints" + where
}

// why says why an endpoint is not used, without a time.
func (e Endpoint) why() string {
	if e.Health != nil && !e.Health.serves() {
		return e.Health.short()
	}
	return e.stateText()
}

// stateText is the state with its reason.
func (e Endpoint) stateText() string {
	switch {
	case e.Reason != "":
		return string(e.State) + ": " + e.Reason
	case e.Full:
		return string(e.State) + ", full"
	}
	return string(e.State)
}

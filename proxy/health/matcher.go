package health

import (
	"net/netip"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// matcher finds the overrides for an endpoint. Those for an address are found by it; the few others are tried one by
// one.
type matcher struct {
	overrides Overrides
	byAddr    map[netip.Addr][]int
	others    []int
	ends      time.Time // of the override that ends first; zero if none does
}

// newMatcher leaves out overrides whose time is over.
func newMatcher(o Overrides, now time.Time) matcher {
	m := matcher{overrides: o}
	for i := range o {
		x := &o[i]
		if x.Expired(now) {
			continue
		}
		if x.Addr.IsValid() {
			if m.byAddr == nil {
				m.byAddr = map[netip.Addr][]int{}
			}
			m.byAddr[x.Addr] = append(m.byAddr[x.Addr], i)
		} else {
			m.others = append(m.others, i)
		}
		m.ends = earlier(m.ends, x.Until)
	}
	return m
}

// earlier returns the earlier of two times of which zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (m *matcher) empty() bool { return len(m.byAddr) == 0 && len(m.others) == 0 }

// all yields the indexes of the overrides for an endpoint's port.
func (m *matcher) all(s *sources.Service, e *sources.Endpoint, port uint16) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for _, list := range [2][]int{m.byAddr[e.Addr], m.others} {
			for _, i := range list {
				if m.overrides[i].matches(s, e, port) && !yield(i) {
					return
				}
			}
		}
	}
}

// find returns the override that takes an endpoint's port out and the one that gives it a weight; nil if there is
// none. Of several, disable comes before drain, and then the later before the earlier.
func (m *matcher) find(s *sources.Service, e *sources.Endpoint, port uint16) (out, weight *Override) {
	if m.empty() {
		return nil, nil
	}
	for i := range m.all(s, e, port) {
		x := &m.overrides[i]
		switch {
		case !x.outs():
			if weight == nil || x.Made.After(weight.Made) {
				weight = x
			}
		case out == nil, out.Verb == x.Verb && x.Made.After(out.Made), x.Verb == Disable && out.Verb == Drain:
			out = x
		}
	}
	return out, weight
}

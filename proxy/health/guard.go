package health

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// ErrLast is an order that would leave a service port without an endpoint, ErrNone one that no endpoint is for.
var (
	ErrLast = errors.New("the last usable endpoint")
	ErrNone = errors.New("no service has such an endpoint")
)

// CheckLast returns an error that is ErrLast if an override, added to those of k, would leave any service port
// without an endpoint that is up, or without one that gets connections. The error names the services.
func CheckLast(t sources.Table, k Known, add Override, now time.Time) error {
	with, err := k.Overrides.Add(add)
	if err != nil {
		return err
	}
	after := k
	after.Overrides = with
	a, b := newJudge(k, now), newJudge(after, now)
	alone := newMatcher(Overrides{add}, now)
	var names []string
	for i := range t.Services.Len() {
		if s := t.Services.At(i); s.Type.Serves() && alone.touches(s) {
			names = append(names, emptied(s, a.usable(s), b.usable(s))...)
		}
	}
	if len(names) == 0 {
		return nil
	}
	more := ""
	if n := len(names) - 5; n > 0 {
		names, more = names[:5], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Errorf("%s %s: %w of %s%s", add.Verb, add.Selector, ErrLast, strings.Join(names, ", "), more)
}

// touches reports whether any endpoint of a service is meant.
func (m *matcher) touches(s *sources.Service) bool {
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		for k := range e.Ports {
			for range m.all(s, e, e.Ports[k].Port) {
				return true
			}
		}
	}
	return false
}

// usable counts the endpoints of one service port in one family.
type usable struct{ up, serving int }

// usable counts by group.
func (j *judge) usable(s *sources.Service) map[rampKey]usable {
	if !j.judge(s) {
		j.unjudged()
	}
	found := map[rampKey]usable{}
	for i := range j.slots {
		x := &j.slots[i]
		k := rampKeyOf(&s.Endpoints[x.endpoint], x.port).group()
		u := found[k]
		if x.cause == Serves || x.cause == Standby {
			u.up++
		}
		if x.serving() {
			u.serving++
		}
		found[k] = u
	}
	return found
}

// emptied names the ports of a service that have no endpoint any more.
func emptied(s *sources.Service, before, after map[rampKey]usable) []string {
	named := map[string]bool{}
	for k, was := range before {
		if is := after[k]; was.up > 0 && is.up == 0 || was.serving > 0 && is.serving == 0 {
			for _, p := range s.Ports {
				if p.Name == k.port && p.Protocol == k.protocol {
					named[s.DisplayName()+" port "+p.Text()] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(named))
}

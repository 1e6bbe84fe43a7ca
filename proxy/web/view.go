package web

import (
	"cmp"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// view is what of a status is wanted: the query of /status.json. Its zero is the first page of all services.
type view struct {
	search string // part of a service's name, of one of its addresses or of its origin
	show   string // "" all, "trouble" those not served as they should be, "draining"
	sort   string // "" by name, "active" those with most established connections first
	offset int
	limit  int    // services; 0 is defaultLimit
	detail string // name of the service whose endpoints are wanted, too
	after  uint64 // the newest event that is known already
}

// Bounds of an answer, so that it has a size at any size of the table. At 50 services of usual kind it is
// 60 KB, 5 KB as sent.
const (
	defaultLimit = 50
	maxLimit     = 500
	maxLines     = 100 // of problems, faults, conflicts, drains, events
)

// viewOf reads a query; what makes no sense in it counts as absent.
func viewOf(q url.Values) view {
	number := func(name string) int {
		n, _ := strconv.Atoi(q.Get(name))
		return max(0, n)
	}
	after, _ := strconv.ParseUint(q.Get("after"), 10, 64)
	return view{
		search: strings.ToLower(q.Get("search")), show: q.Get("show"), sort: q.Get("sort"),
		offset: number("offset"), limit: min(cmp.Or(number("limit"), defaultLimit), maxLimit),
		detail: q.Get("service"), after: after,
	}
}

// answer is a status with its lists cut to what was asked for: Services are those of one page, without
// their endpoints and faults.
type answer struct {
	status.Status
	Matching int             `json:"matching"`         // services that match, on whatever page
	Offset   int             `json:"offset"`           // of the page's first among them
	Detail   *status.Service `json:"detail,omitempty"` // the one asked for, whether it matches or not
	Events   []events.Event  `json:"events"`           // newer than what is known already, oldest first
	Lost     uint64          `json:"lost"`             // events that came and are forgotten
}

// of cuts a status to the view.
func (v view) of(s status.Status) answer {
	a := answer{Status: s, Detail: v.find(s), Events: []events.Event{}}
	a.Services = []status.Service{}
	var matching []*status.Service
	for i := range s.Services {
		svc := &s.Services[i]
		if v.matches(svc) {
			matching = append(matching, svc)
		}
	}
	if v.sort == "active" {
		slices.SortStableFunc(matching, func(a, b *status.Service) int { return cmp.Compare(b.Active, a.Active) })
	}
	a.Matching, a.Offset = len(matching), v.page(len(matching))
	for _, svc := range matching[a.Offset:min(a.Offset+v.limit, len(matching))] {
		cut := *svc
		cut.Endpoints, cut.Faults = []status.Endpoint{}, []status.Fault{}
		a.Services = append(a.Services, cut)
	}
	a.Problems, a.Warnings = first(s.Problems), first(s.Warnings)
	a.Faults, a.Conflicts, a.Drains = first(s.Faults), first(s.Conflicts), first(s.Drains)
	return a
}

// find gives the service that is wanted in detail; nil if there is none.
func (v view) find(s status.Status) *status.Service {
	i := slices.IndexFunc(s.Services, func(svc status.Service) bool { return svc.Name == v.detail })
	if i < 0 {
		return nil
	}
	return &s.Services[i]
}

// page is where the page begins that the offset is for: the last one, if there are fewer by now.
func (v view) page(matching int) int {
	if v.offset < matching {
		return v.offset
	}
	return max(0, (matching-1)/v.limit*v.limit)
}

func (v view) matches(s *status.Service) bool {
	switch v.show {
	case "trouble":
		if !s.State.Trouble() {
			return false
		}
	case "draining":
		if s.Backends.Draining == 0 {
			return false
		}
	}
	if v.search == "" || contains(s.Name, v.search) || contains(s.Origin, v.search) {
		return true
	}
	at := func(a netip.AddrPort) bool { return contains(a.String(), v.search) }
	return slices.ContainsFunc(s.Virtuals, func(x status.Virtual) bool { return at(x.Address) }) ||
		slices.ContainsFunc(s.Endpoints, func(e status.Endpoint) bool { return at(e.Address) })
}

func contains(s, part string) bool { return strings.Contains(strings.ToLower(s), part) }

func first[T any](list []T) []T { return list[:min(len(list), maxLines)] }

// add puts the newest events into an answer.
func (a *answer) add(list []events.Event, lost uint64) {
	a.Lost = lost
	if more := len(list) - maxLines; more > 0 {
		a.Lost, list = a.Lost+uint64(more), list[more:]
	}
	a.Events = append(a.Events, list...)
}

package web

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/proxy/status"
	"github.com/svcproxy/svcproxy/sources"
)

// view is the query of /status.json: which part of the status is wanted. Its zero is the first page of all
// services.
type view struct {
	search string // part of a service's name, of one of its addresses, of "fwmark N" or of its origin
	show   string // "" all, "trouble" those in a state with State.Trouble or whose Health has Trouble, "draining"
	sort   string // "" trouble first, or one of orders
	offset int
	limit  int    // services; 0 is defaultLimit
	detail string // name of the service whose endpoints are wanted
	after  uint64 // the newest event that the page knows

	past *status.Past // nil: none is kept
}

// Bounds of an answer, so that its size does not grow with the table. With 50 usual services it has 60 KB, or
// 5 KB compressed.
const (
	defaultLimit = 50
	maxLimit     = 500
	maxLines     = 100 // of problems, faults, conflicts, drains, orders, events
)

// viewOf reads a query. It ignores what it does not understand.
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

// answer is a status with its lists cut to a view. Services are those of one page, without their endpoints
// and faults.
type answer struct {
	status.Status
	Summary  status.Summary  `json:"summary"`
	Matching int             `json:"matching"`         // services that match, on all pages
	Offset   int             `json:"offset"`           // of the page's first service among them
	Detail   *status.Service `json:"detail,omitempty"` // the service asked for, whether it matches or not
	Events   []events.Event  `json:"events"`           // newer than view.after, oldest first
	Lost     uint64          `json:"lost"`             // events that were dropped before they were read
	// Past is the traffic of the last ten minutes: of all services and of those on this page.
	Past *status.PastView `json:"past,omitempty"`
}

// of cuts a status to the view. It does not change the status.
func (v view) of(s status.Status) answer {
	a := answer{Status: s, Summary: s.Summary(), Detail: v.find(s), Events: []events.Event{}}
	a.Services = []status.Service{}
	var matching []*status.Service
	for i := range s.Services {
		svc := &s.Services[i]
		if v.matches(svc) {
			matching = append(matching, svc)
		}
	}
	v.order(matching)
	a.Matching, a.Offset = len(matching), v.page(len(matching))
	for _, svc := range matching[a.Offset:min(a.Offset+v.limit, len(matching))] {
		cut := *svc
		cut.Endpoints, cut.Faults = []status.Endpoint{}, []status.Fault{}
		a.Services = append(a.Services, cut)
	}
	if v.past != nil {
		var names []string
		if a.Detail != nil {
			names = append(names, a.Detail.Name)
		}
		for _, svc := range a.Services {
			names = append(names, svc.Name)
		}
		past := v.past.View(names)
		a.Past = &past
	}
	a.Problems, a.Warnings = first(s.Problems), first(s.Warnings)
	a.Faults, a.Conflicts, a.Drains = first(s.Faults), first(s.Conflicts), first(s.Drains)
	if s.Health != nil {
		health := *s.Health
		health.Overrides = first(health.Overrides)
		a.Health = &health
	}
	return a
}

// find returns the service of view.detail, which may lack the default namespace; nil if there is none.
func (v view) find(s status.Status) *status.Service {
	i := slices.IndexFunc(s.Services, func(svc status.Service) bool {
		return sources.SameName(svc.Name, v.detail)
	})
	if i < 0 {
		return nil
	}
	return &s.Services[i]
}

// page is the offset of the page: the wanted one, or the last if there are fewer services by now.
func (v view) page(matching int) int {
	if v.offset < matching {
		return v.offset
	}
	return max(0, (matching-1)/v.limit*v.limit)
}

func (v view) matches(s *status.Service) bool {
	switch v.show {
	case "trouble":
		if !s.State.Trouble() && !s.Health.Trouble() && s.Backends.Full == 0 {
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
	virtual := func(x status.Virtual) bool {
		if x.Mark != 0 {
			return contains(fmt.Sprintf("fwmark %d", x.Mark), v.search)
		}
		return at(x.Address)
	}
	return slices.ContainsFunc(s.Virtuals, virtual) ||
		slices.ContainsFunc(s.Endpoints, func(e status.Endpoint) bool { return at(e.Address) })
}

func contains(s, part string) bool { return strings.Contains(strings.ToLower(s), part) }

func first[T any](list []T) []T { return list[:min(len(list), maxLines)] }

// add adds the newest events to an answer.
func (a *answer) add(list []events.Event, lost uint64) {
	a.Lost = lost
	if more := len(list) - maxLines; more > 0 {
		a.Lost, list = a.Lost+uint64(more), list[more:]
	}
	a.Events = append(a.Events, list...)
}

package health

import (
	"maps"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// Cache returns what Overlay returns, and keeps the slow starts. It judges only the services that something has
// changed for, and shares the endpoints of all others with its last result.
type Cache struct {
	ran     bool
	table   sources.Table // that came in
	known   Known         // with it, Ramps included
	ends    time.Time     // when the first of its overrides ends; zero = never
	results []overlaid    // by service
	notable []int32       // those of results with something unusual or a wake, ascending
	changes int           // those of results with other endpoints than in the table
	users   map[Key][]int32
	out     Overlaid
}

// Overlay returns the table as it is to be served. changed has the targets whose verdicts differ since the last call;
// they may be given twice. k.Ramps is ignored.
func (c *Cache) Overlay(t sources.Table, k Known, changed []Key, now time.Time) Overlaid {
	todo, all := c.todo(t, k, changed, now)
	was := func(i int32) int { return int(i) }
	if all {
		was = c.reset(t)
	}
	k.Ramps = c.known.Ramps
	j := newJudge(k, now)
	fresh := !c.ran || !t.Services.Same(c.table.Services)
	for _, i := range todo {
		before := (*sources.Service)(nil)
		if n := was(i); n >= 0 && c.ran {
			before = c.out.Services.At(n)
		}
		fresh = c.service(j, t.Services.At(int(i)), before, i) || fresh
		c.note(i)
	}
	if fresh {
		c.out.Table = c.assemble(t, todo, all)
	}
	c.table, c.known, c.ends, c.ran = t, j.known, j.overrule.ends, true
	c.out.Seen = t.Seen
	c.out.Unusual, c.out.Wake = c.summary(c.ends)
	return c.out
}

// note keeps notable up to date after a service was judged. There may be many services and few of these.
func (c *Cache) note(i int32) {
	r := &c.results[i]
	is := len(r.unusual) > 0 || !r.wake.IsZero()
	switch at, was := slices.BinarySearch(c.notable, i); {
	case is && !was:
		c.notable = slices.Insert(c.notable, at, i)
	case !is && was:
		c.notable = slices.Delete(c.notable, at, at+1)
	}
}

// Ramps returns the slow starts under way. Callers must not change them.
func (c *Cache) Ramps() Ramps { return c.known.Ramps }

// service judges one service, which was served as before until now, and reports whether its endpoints differ from the
// last result.
func (c *Cache) service(j *judge, s, before *sources.Service, i int32) bool {
	o := j.overlay(s)
	if own := j.known.Ramps[keyOf(s)]; before != nil && (ramps(s) || own != nil) {
		is := *s
		is.Endpoints = o.endpoints
		next := serviceRamps(nil)
		if ramps(s) {
			next = own.next(before, &is, j.now)
		}
		if !next.equal(own) {
			j.known.Ramps = j.known.Ramps.with(s, next)
			o = j.overlay(s)
		}
	}
	last := c.results[i]
	switch {
	case o.changed && !last.changed:
		c.changes++
	case !o.changed && last.changed:
		c.changes--
	}
	if o.changed && last.changed && sameEndpoints(o.endpoints, last.endpoints) {
		o.endpoints = last.endpoints
	}
	c.results[i] = o
	return o.changed != last.changed || o.changed && !same(o.endpoints, last.endpoints)
}

// with returns the ramps with others for one service.
func (r Ramps) with(s *sources.Service, own serviceRamps) Ramps {
	all := maps.Clone(r)
	if all == nil {
		all = Ramps{}
	}
	delete(all, keyOf(s))
	if len(own) > 0 {
		all[keyOf(s)] = own
	}
	return all
}

func sameEndpoints(a, b []sources.Endpoint) bool {
	table := func(e []sources.Endpoint) sources.Table {
		return sources.Table{Services: sources.ServicesOf(sources.Service{Endpoints: e})}
	}
	return len(sources.Compare(table(a), table(b)).Changes) == 0
}

// assemble returns the table with the endpoints of the results. It shares all services with the last result but those
// that were judged, unless these are all.
func (c *Cache) assemble(t sources.Table, judged []int32, all bool) sources.Table {
	services := t.Services
	other := func(i int) sources.Service {
		s := *services.At(i)
		if r := &c.results[i]; r.changed {
			s.Endpoints = r.endpoints
		}
		return s
	}
	switch {
	case c.changes == 0:
	case all:
		t.Services = services.With(c.changed(), other)
	default:
		t.Services = c.out.Services.With(c.touched(t, judged), other)
	}
	return t
}

// changed returns the indexes of the results with other endpoints than in the table.
func (c *Cache) changed() []int {
	list := make([]int, 0, c.changes)
	for i := range c.results {
		if c.results[i].changed {
			list = append(list, i)
		}
	}
	return list
}

// touched returns the indexes of the services in which a table with the results differs from the last one.
func (c *Cache) touched(t sources.Table, judged []int32) []int {
	if d := sources.Compare(c.table, t); d.Moved || d.Shifted {
		return d.Touched(t.Services.Len())
	}
	list := make([]int, len(judged))
	for i, at := range judged {
		list[i] = int(at)
	}
	return list
}

// summary collects what is unusual, and when the first result changes by itself.
func (c *Cache) summary(wake time.Time) ([]Unusual, time.Time) {
	var list []Unusual
	for _, i := range c.notable {
		r := &c.results[i]
		for _, g := range r.unusual {
			list = append(list, Unusual{int(i), g})
		}
		wake = earlier(wake, r.wake)
	}
	return list, wake
}

// todo returns the indexes of the services to judge; all, if that is every one.
func (c *Cache) todo(t sources.Table, k Known, changed []Key, now time.Time) (todo []int32, all bool) {
	every := func() ([]int32, bool) {
		for i := range t.Services.Len() {
			todo = append(todo, int32(i))
		}
		return todo, true
	}
	if !c.ran || k.Verdicts.Blind != c.known.Verdicts.Blind || !maps.Equal(k.Silent, c.known.Silent) ||
		!same(k.Overrides, c.known.Overrides) && !slices.Equal(k.Overrides, c.known.Overrides) {
		return every()
	}
	if !c.ends.IsZero() && !now.Before(c.ends) {
		return every()
	}
	if !t.Services.Same(c.table.Services) {
		for _, d := range sources.Compare(c.table, t).Changes {
			if d.Was < 0 || d.Is < 0 {
				return every()
			}
			c.index(c.table.Services.At(d.Was), int32(d.Was), false)
			c.index(t.Services.At(d.Is), int32(d.Is), true)
			todo = append(todo, int32(d.Is))
		}
	}
	for _, key := range changed {
		todo = append(todo, c.users[key]...)
	}
	for _, i := range c.notable {
		if w := c.results[i].wake; !w.IsZero() && !now.Before(w) {
			todo = append(todo, i)
		}
	}
	slices.Sort(todo)
	return slices.Compact(todo), false
}

// same reports whether two slices are the same memory.
func same[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// reset prepares for a table of other services. Results and ramps stay with services of the same name. It returns a
// function that says where the service with an index was in the last table; -1 = nowhere.
func (c *Cache) reset(t sources.Table) (was func(int32) int) {
	old := make(map[serviceKey]int, c.table.Services.Len())
	for i := range c.table.Services.Len() {
		old[keyOf(c.table.Services.At(i))] = i
	}
	was = func(i int32) int {
		if at, ok := old[keyOf(t.Services.At(int(i)))]; ok {
			return at
		}
		return -1
	}
	results, ramping := make([]overlaid, t.Services.Len()), Ramps{}
	c.users = make(map[Key][]int32, len(c.users))
	for i := range t.Services.Len() {
		s := t.Services.At(i)
		if n := was(int32(i)); n >= 0 {
			results[i] = c.results[n]
		}
		if own := c.known.Ramps[keyOf(s)]; own != nil {
			ramping[keyOf(s)] = own
		}
		c.index(s, int32(i), true)
	}
	c.results, c.notable, c.changes, c.known.Ramps = results, nil, 0, ramping
	for i := range results {
		if results[i].changed {
			c.changes++
		}
	}
	return was
}

// index adds the targets of a service to users, or removes them.
func (c *Cache) index(s *sources.Service, at int32, add bool) {
	if !checked(s) {
		return
	}
	var intern interned
	for i := range s.Endpoints {
		for k := range s.Endpoints[i].Ports {
			key, ok := intern.key(s, &s.Endpoints[i], k)
			if !ok {
				continue
			}
			list := c.users[key]
			n := slices.Index(list, at)
			switch {
			case add && n < 0:
				c.users[key] = append(list, at)
			case !add && n >= 0 && len(list) == 1:
				delete(c.users, key)
			case !add && n >= 0:
				c.users[key] = slices.Delete(slices.Clone(list), n, n+1)
			}
		}
	}
}

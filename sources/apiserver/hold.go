//go:build !noapiserver

package apiserver

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// hold keeps the objects of a kind after a list that suddenly has none of them, until the grace is over. A list
// through a broken proxy, or from another cluster's API server, looks like that of an empty cluster. A deletion that
// comes by a watch applies at once.
type hold struct {
	names map[name]struct{} // objects that were not in the list and have not come back
	had   int
	until time.Time
	// first: this is the first list, so only the kernel has the earlier objects, and nothing may be removed.
	first bool
	own   bool // the list has the API server's own service
}

// text describes the hold and its end.
func (h *hold) text(resource string) string {
	none, until := "none", h.until.Format(time.DateTime)
	if h.own {
		none = "none but those of default/kubernetes"
	}
	if h.first {
		return fmt.Sprintf("%s: the API server has %s: nothing is removed until %s (sources.apiserver.emptyGrace)", resource,
			none, until)
	}
	return fmt.Sprintf("%s: the API server has %s, and had %d: not believed until %s (sources.apiserver.emptyGrace)",
		resource, none, h.had, until)
}

// holds are the present holds by resource.
type holds map[string]*hold

// texts are the texts of all holds, sorted; first says whether one is of a first list.
func (h holds) texts() (all []string, first bool) {
	for _, resource := range slices.Sorted(maps.Keys(h)) {
		all = append(all, h[resource].text(resource))
		first = first || h[resource].first
	}
	return all, first
}

// back notes that an object is back, or was deleted by a watch. A hold ends when it has no names left; that of a
// first list ends with the first object that is not the API server's own. c.mu is locked.
func (c *catalog) back(resource string, n name, own bool) {
	h := c.holds[resource]
	if h == nil {
		return
	}
	delete(h.names, n)
	if len(h.names) == 0 && !(h.first && own) {
		delete(c.holds, resource)
	}
}

// ownService is the service that an API server makes when it starts. So the list of an empty cluster has it.
var ownService = name{"default", "kubernetes"}

// keep returns the names that stay although a complete list lacks them. These are all names, if the list has only
// the API server's own service and the grace is not over. service returns the service of an object. c.mu is locked.
func keep[T any](c *catalog, resource string, first bool, have, list map[name]T, service func(T) name) []name {
	others := func(objects map[name]T) bool {
		for _, o := range objects {
			if service(o) != ownService {
				return true
			}
		}
		return false
	}
	before := c.holds[resource]
	if c.grace == 0 || others(list) || !first && before == nil && !others(have) {
		delete(c.holds, resource)
		return nil
	}
	h := &hold{names: map[name]struct{}{}, first: first, own: len(list) > 0, until: time.Now().Add(c.grace)}
	for n := range have {
		if _, listed := list[n]; !listed {
			h.names[n] = struct{}{}
		}
	}
	h.had = len(h.names)
	if before != nil {
		h.first, h.until, h.had = before.first, before.until, max(before.had, h.had)
	} else {
		time.AfterFunc(c.grace, func() { c.release(resource) })
	}
	c.holds[resource] = h
	return slices.Collect(maps.Keys(h.names))
}

// keepNode says whether the Node stays although a list does not have it. Otherwise load balancers would leave all
// nodes at once. c.mu is locked.
func (c *catalog) keepNode() bool {
	const resource = "nodes"
	if c.grace == 0 || !c.node.Eligible() {
		delete(c.holds, resource)
		return false
	}
	if c.holds[resource] == nil {
		c.holds[resource] = &hold{names: map[name]struct{}{{"", c.node.Name}: {}}, had: 1, until: time.Now().Add(c.grace)}
		time.AfterFunc(c.grace, func() { c.release(resource) })
	}
	return true
}

// release removes the held objects of a kind when the grace is over.
func (c *catalog) release(resource string) {
	defer c.lock()()
	h := c.holds[resource]
	if h == nil || time.Now().Before(h.until) {
		return // it has ended, or a new one has begun
	}
	delete(c.holds, resource)
	seen := c.seen
	for n := range h.names {
		switch resource {
		case "services":
			delete(c.services, n)
			c.changed[n] = struct{}{}
		case "endpointslices":
			c.take(n)
		case "nodes":
			c.node = c.node.Gone()
		}
	}
	c.seen = seen // this is no watch event
}

//go:build !noapiserver

package apiserver

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/sources/manifest"

	"github.com/svcproxy/svcproxy/sources"
)

// name is the name of an object.
type name struct{ namespace, name string }

func (n name) compare(o name) int {
	return cmp.Or(cmp.Compare(n.namespace, o.namespace), cmp.Compare(n.name, o.name))
}

func nameOf(m manifest.Metadata) name { return name{m.Namespace, m.Name} }

// serviceOf is the service that a slice belongs to.
func serviceOf(e *manifest.EndpointSlice) name {
	return name{e.Metadata.Namespace, e.Metadata.Labels.ServiceName}
}

// catalog is a copy of the API server's objects, with the services that changed since the last look. Three
// reflectors fill it, and one goroutine reads it.
type catalog struct {
	wake  chan struct{} // receives when there is something to look at
	proxy string        // Options.ProxyName

	mu       sync.Mutex
	services map[name]manifest.Service
	slices   map[name]*manifest.EndpointSlice
	parts    map[name][]*manifest.EndpointSlice // by service, sorted by name
	node     manifest.Node

	changed map[name]struct{} // services to convert again
	seen    time.Time         // of the oldest change that a watch brought
	listed  struct{ services, slices, node bool }
	outages outages
	holds   holds
	grace   time.Duration // how long objects stay when a list has none of them any more; 0 = not at all
}

func newCatalog(proxy string) *catalog {
	return &catalog{
		proxy:    proxy,
		wake:     make(chan struct{}, 1),
		services: map[name]manifest.Service{},
		slices:   map[name]*manifest.EndpointSlice{},
		parts:    map[name][]*manifest.EndpointSlice{},
		changed:  map[name]struct{}{},
		outages:  outages{},
		holds:    holds{},
	}
}

// lock locks the catalog. The function that it returns unlocks it and wakes the reader.
func (c *catalog) lock() func() {
	c.mu.Lock()
	return func() {
		c.mu.Unlock()
		select {
		case c.wake <- struct{}{}:
		default: // the reader is already due to look
		}
	}
}

// touch marks a service to convert again after a watch event.
func (c *catalog) touch(n name) {
	c.changed[n] = struct{}{}
	if c.seen.IsZero() {
		c.seen = time.Now()
	}
}

// touchAll marks all services to convert again.
func (c *catalog) touchAll() {
	defer c.lock()()
	for n := range c.services {
		c.changed[n] = struct{}{}
	}
}

func (c *catalog) putService(s manifest.Service) {
	defer c.lock()()
	n := nameOf(s.Metadata)
	c.services[n] = s
	c.back("services", n, n == ownService)
	c.touch(n)
}

func (c *catalog) dropService(s manifest.Service) {
	defer c.lock()()
	n := nameOf(s.Metadata)
	delete(c.services, n)
	c.back("services", n, true)
	c.touch(n)
}

// replaceServices sets all services from a complete list.
func (c *catalog) replaceServices(all []manifest.Service) {
	defer c.lock()()
	for n := range c.services {
		c.changed[n] = struct{}{}
	}
	next := make(map[name]manifest.Service, len(all))
	for _, s := range all {
		n := nameOf(s.Metadata)
		next[n] = s
		c.changed[n] = struct{}{}
	}
	service := func(s manifest.Service) name { return nameOf(s.Metadata) }
	for _, n := range keep(c, "services", !c.listed.services, c.oursOf(c.services), c.oursOf(next), service) {
		next[n] = c.services[n]
	}
	c.services = next
	c.listed.services = true
	c.outages.end("services")
}

func (c *catalog) putSlice(e *manifest.EndpointSlice) {
	defer c.lock()()
	c.take(nameOf(e.Metadata))
	c.shelve(e)
	c.back("endpointslices", nameOf(e.Metadata), serviceOf(e) == ownService)
	c.touch(serviceOf(e))
}

func (c *catalog) dropSlice(e *manifest.EndpointSlice) {
	defer c.lock()()
	c.take(nameOf(e.Metadata))
	c.back("endpointslices", nameOf(e.Metadata), true)
}

func (c *catalog) shelve(e *manifest.EndpointSlice) {
	c.slices[nameOf(e.Metadata)] = e
	service := serviceOf(e)
	parts := c.parts[service]
	at, _ := slices.BinarySearchFunc(parts, e, func(a, b *manifest.EndpointSlice) int {
		return cmp.Compare(a.Metadata.Name, b.Metadata.Name)
	})
	c.parts[service] = slices.Insert(parts, at, e)
}

// take removes a slice from its service, if it is there.
func (c *catalog) take(n name) {
	old := c.slices[n]
	if old == nil {
		return
	}
	delete(c.slices, n)
	service := serviceOf(old)
	c.parts[service] = slices.DeleteFunc(c.parts[service], func(e *manifest.EndpointSlice) bool { return e == old })
	if len(c.parts[service]) == 0 {
		delete(c.parts, service)
	}
	c.touch(service)
}

// replaceSlices sets all slices from a complete list.
func (c *catalog) replaceSlices(all []*manifest.EndpointSlice) {
	defer c.lock()()
	for service := range c.parts {
		c.changed[service] = struct{}{}
	}
	next := make(map[name]*manifest.EndpointSlice, len(all))
	for _, e := range all {
		next[nameOf(e.Metadata)] = e
	}
	for _, n := range keep(c, "endpointslices", !c.listed.slices, c.slices, next, serviceOf) {
		next[n] = c.slices[n]
	}
	c.slices = make(map[name]*manifest.EndpointSlice, len(next))
	c.parts = make(map[name][]*manifest.EndpointSlice, len(next))
	for _, e := range next {
		c.shelve(e)
		c.changed[serviceOf(e)] = struct{}{}
	}
	c.listed.slices = true
	c.outages.end("endpointslices")
}

func (c *catalog) putNode(o manifest.NodeObject) {
	defer c.lock()()
	c.node = o.Node()
	delete(c.holds, "nodes")
}

func (c *catalog) dropNode(manifest.NodeObject) {
	defer c.lock()()
	c.node = c.node.Gone()
	delete(c.holds, "nodes")
}

// replaceNode sets the Node from a list of one object, or of none if it does not exist or was deleted.
func (c *catalog) replaceNode(all []manifest.NodeObject) {
	defer c.lock()()
	switch {
	case len(all) > 0:
		c.node = all[0].Node()
		delete(c.holds, "nodes")
	case c.node.Name != "" && !c.keepNode():
		c.node = c.node.Gone()
	}
	c.listed.node = true
	c.outages.end("nodes")
}

// fail notes an outage of a kind.
func (c *catalog) fail(o outage) {
	defer c.lock()()
	c.outages.begin(o)
	c.listed.node = c.listed.node || o.resource == "nodes" // go on without the Node's facts
}

// answered notes that a watch of a kind was answered, which ends most outages.
func (c *catalog) answered(resource string) { c.over(c.outages.end, resource) }

// lasts notes that a watch of a kind has lasted, which ends every outage.
func (c *catalog) lasts(resource string) { c.over(c.outages.endAll, resource) }

// over ends outages and wakes the reader if there were any.
func (c *catalog) over(end func(resource string) bool, resource string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if end(resource) {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}

// news is what changed since the last look.
type news struct {
	complete bool // services and slices were listed, and the Node asked for
	node     manifest.Node
	changes  []change // in order of name; none until complete
	seen     time.Time
	outages  outages
	held     []string // texts of the holds; none until complete
	hold     bool     // nothing may be removed yet
}

// change is a service as it is now, with its slices.
type change struct {
	name    name
	service manifest.Service
	there   bool // false: it was deleted
	parts   []*manifest.EndpointSlice
}

// look returns what changed since the last look.
func (c *catalog) look(withNode bool) news {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := news{
		complete: c.listed.services && c.listed.slices && (c.listed.node || !withNode),
		node:     c.node,
		outages:  c.outages.clone(),
	}
	if !n.complete {
		return n
	}
	n.held, n.hold = c.holds.texts()
	n.changes = make([]change, 0, len(c.changed))
	for changed := range c.changed {
		s, there := c.services[changed]
		there = there && s.Metadata.Labels.Of(c.proxy)
		// A clone, because the catalog changes its own in place.
		n.changes = append(n.changes, change{changed, s, there, slices.Clone(c.parts[changed])})
	}
	sources.SortFunc(n.changes, func(a, b change) int { return a.name.compare(b.name) })
	n.seen, c.seen = c.seen, time.Time{}
	clear(c.changed)
	return n
}

// oursOf returns those of some Services that are this proxy's.
func (c *catalog) oursOf(all map[name]manifest.Service) map[name]manifest.Service {
	if c.proxy == "" {
		return all
	}
	ours := map[name]manifest.Service{}
	for n, s := range all {
		if s.Metadata.Labels.Of(c.proxy) {
			ours[n] = s
		}
	}
	return ours
}

// others counts the Services that are left to other proxies, with the first names, at most sources.MaxOthers.
func (c *catalog) others() (count int, first []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n, s := range c.services {
		if s.Metadata.Labels.Of(c.proxy) {
			continue
		}
		count++
		text := n.namespace + "/" + n.name
		if at, _ := slices.BinarySearch(first, text); at < sources.MaxOthers {
			first = slices.Insert(first, at, text)
			first = first[:min(len(first), sources.MaxOthers)]
		}
	}
	return count, first
}

//go:build !noapiserver

package apiserver

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/manifest"
)

// wipe deletes all objects of some resources and the history, as the restore of a backup does.
func (r *rig) wipe(resources ...string) {
	r.mu.Lock()
	for _, resource := range resources {
		clear(r.objects[resource])
	}
	r.mu.Unlock()
	r.compact()
	r.cutWatches()
}

// TestEmptyList: objects that a list suddenly has none of are still served, and reported. Objects that come back replace
// the held ones, and new ones are served, too.
func TestEmptyList(t *testing.T) {
	r := start(t, Options{EmptyGrace: time.Hour}, whole)
	r.want(wholeTable)
	r.wipe("services", "endpointslices")
	// Both kinds must be held before a service comes: with one in it, the list of services would be believed.
	e := r.complains("endpointslices: the API server has none, and had", "not believed until", "emptyGrace", "and 1 more")
	if refused := (*sources.RejectedError)(nil); !errors.As(e.err, &refused) || refused.Incomplete {
		t.Errorf("%#v", e.err)
	}
	if e.table.Services.Len() != 2 {
		t.Errorf("not served on: %s", e)
	}
	r.put(ownSvc(), svc("new", "10.96.0.3"))
	r.wait("new", func(e emission) bool { return strings.HasPrefix(e.String(), "db, kubernetes, new, web 10.2.0.1 ! ") })
	r.put(svc("db", "10.96.0.2"), svc("web", "10.96.0.1"), eps("web-1", "web", "10.2.0.2"))
	r.want("db, kubernetes, new, web 10.2.0.2")

	r.remove(svc("db", "")) // what a watch says is believed
	r.want("kubernetes, new, web 10.2.0.2")
	r.wipe("endpointslices")
	r.wait("no slices", func(e emission) bool {
		return strings.HasPrefix(e.String(), "kubernetes, new, web 10.2.0.2 ! endpointslices: the API server has none, and had 1")
	})
}

func ownSvc() object { return svc("kubernetes", "10.96.0.250") }

// TestEmptyListOfAnOwnService: a list with only the API server's own service counts as empty.
func TestEmptyListOfAnOwnService(t *testing.T) {
	r := start(t, Options{EmptyGrace: time.Second}, whole)
	r.want(wholeTable)
	r.mu.Lock()
	clear(r.objects["services"])
	r.mu.Unlock()
	r.put(ownSvc())
	r.compact()
	r.cutWatches()
	r.wait("held", func(e emission) bool {
		return strings.HasPrefix(e.String(), "db, kubernetes, web 10.2.0.1 ! services: the API server has none but those of default/kubernetes, and had 2")
	})
	r.want("kubernetes") // the grace is over
}

// TestEmptyListAtTheStart: only the kernel has the earlier objects, and nothing may be removed.
func TestEmptyListAtTheStart(t *testing.T) {
	incomplete := func(e emission) bool {
		var refused *sources.RejectedError
		return errors.As(e.err, &refused) && refused.Incomplete
	}
	r := start(t, Options{EmptyGrace: time.Hour}, func(r *rig) { r.put(ownSvc()) })
	if e := r.complains("endpointslices: the API server has none: nothing is removed until", "and 1 more"); !incomplete(e) {
		t.Errorf("%#v", e.err)
	} else if e.table.Services.Len() != 1 {
		t.Errorf("not served: %s", e)
	}
	r.put(svc("web", "10.96.0.1"))
	r.wait("only slices held", func(e emission) bool {
		return incomplete(e) && strings.HasPrefix(e.err.Error(), "endpointslices: the API server has none") && !strings.Contains(e.err.Error(), "more")
	})
	r.put(eps("web-1", "web", "10.2.0.1"))
	r.want("kubernetes, web 10.2.0.1")

	r = start(t, Options{EmptyGrace: 300 * time.Millisecond}, nil)
	if e := <-r.emits; !incomplete(e) {
		t.Errorf("first %s", e)
	}
	r.want("") // a cluster may be empty
}

// TestHoldOfCatalog: held objects go when the grace is over, or at once when a list has others.
func TestHoldOfCatalog(t *testing.T) {
	services := func(names ...string) (all []manifest.Service) {
		for _, n := range names {
			all = append(all, newCatalog("").service(svc(n, "10.96.0.1")))
		}
		return all
	}
	parts := func(names ...string) (all []*manifest.EndpointSlice) {
		for _, n := range names {
			all = append(all, slice(eps(n, "a", "10.2.0.1")))
		}
		return all
	}
	// there checks the numbers of services and slices in a catalog, and its holds.
	there := func(t *testing.T, c *catalog, services, parts int, held ...string) {
		t.Helper()
		n := c.look(false)
		c.mu.Lock() // timers end holds
		defer c.mu.Unlock()
		if len(c.services) != services || len(c.slices) != parts {
			t.Errorf("%d services and %d slices, want %d and %d", len(c.services), len(c.slices), services, parts)
		}
		for i, text := range n.held {
			n.held[i], _, _ = strings.Cut(text, ":")
		}
		if !slices.Equal(n.held, held) {
			t.Errorf("held %q, want %q", n.held, held)
		}
	}
	full := func(grace time.Duration) *catalog {
		c := newCatalog("")
		c.grace = grace
		c.replaceServices(services("a", "b"))
		c.replaceSlices(parts("a-1", "a-2"))
		return c
	}
	synctest.Test(t, func(t *testing.T) {
		c := full(5 * time.Minute)
		there(t, c, 2, 2)
		c.replaceServices(nil)
		time.Sleep(time.Minute)
		c.replaceSlices(nil)
		there(t, c, 2, 2, "endpointslices", "services")
		time.Sleep(3 * time.Minute)
		c.replaceServices(services("kubernetes")) // that does not make it longer
		there(t, c, 3, 2, "endpointslices", "services")
		c.dropService(services("a")[0])
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		there(t, c, 1, 2, "endpointslices")
		time.Sleep(time.Minute)
		synctest.Wait()
		there(t, c, 1, 0)
	})
	synctest.Test(t, func(t *testing.T) {
		c := full(5 * time.Minute)
		c.replaceServices(nil)
		c.replaceSlices(nil)
		c.replaceServices(services("c"))
		c.putSlice(parts("a-1")[0])
		there(t, c, 1, 2, "endpointslices")
		c.putSlice(parts("a-2")[0])
		there(t, c, 1, 2)
		c.replaceServices(nil) // another one, with a grace of its own
		time.Sleep(4 * time.Minute)
		there(t, c, 1, 2, "services")
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		there(t, c, 0, 2)
	})
	c := full(0)
	c.replaceServices(nil)
	c.replaceSlices(nil)
	there(t, c, 0, 0)
}

// TestHoldOfTheNode: a Node that a list no longer has stays eligible during the grace, so that load balancers do not leave
// all nodes at once.
func TestHoldOfTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := func(zone string) (o manifest.NodeObject) {
			o.Metadata.Name, o.Metadata.Labels.Zone = "n1", zone
			return o
		}
		c := newCatalog("")
		c.grace = 5 * time.Minute
		now := func() (node manifest.Node, held, holds bool) { // held: the Node; holds: anything
			c.mu.Lock() // timers end holds
			defer c.mu.Unlock()
			return c.node, c.holds["nodes"] != nil, len(c.holds) > 0
		}
		c.replaceServices(nil)
		c.replaceSlices(nil)
		c.replaceNode(nil)
		if n, held, _ := now(); n.Name != "" || held {
			t.Error("there never was a Node")
		}
		c.replaceNode([]manifest.NodeObject{node("a")})
		c.replaceNode(nil)
		time.Sleep(4 * time.Minute)
		c.replaceNode(nil)
		if n, held, _ := now(); !n.Eligible() || !held {
			t.Errorf("%+v, held %t", n, held)
		}
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		if n, _, holds := now(); n.Eligible() || holds {
			t.Errorf("%+v, holds %t", n, holds)
		}
		c.putNode(node("a"))
		c.replaceNode(nil)
		c.putNode(node("b"))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n, _, _ := now(); !n.Eligible() || n.Zone != "b" {
			t.Errorf("%+v", n)
		}
		c.replaceNode(nil)
		c.dropNode(node("b"))
		if n, _, holds := now(); n.Eligible() || holds {
			t.Errorf("deleted, and %+v, holds %t", n, holds)
		}
	})
}

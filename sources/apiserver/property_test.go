//go:build !noapiserver

package apiserver

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/manifest"
)

// TestIncremental: after any sequence of events, the table that was updated equals one that is made from all objects at
// once, and has the same problems.
func TestIncremental(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, kept := newCatalog(""), &table{node: "n1"}
		c.replaceServices(nil)
		c.replaceSlices(nil)
		services, parts := map[string]manifest.Service{}, map[string]*manifest.EndpointSlice{}
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			happen(t, c, services, parts)
			if rapid.Bool().Draw(t, "look") {
				before := kept.Table
				kept.update(c.look(false).changes)
				got, want := sources.Compare(before, kept.Table), sources.Compare(before, sources.Table{Services: kept.Services})
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("differs in %+v, want %+v", got, want)
				}
			}
		}
		kept.update(c.look(false).changes)

		fresh, again := newCatalog(""), &table{node: "n1"}
		fresh.replaceServices(slices.Collect(maps.Values(services)))
		fresh.replaceSlices(slices.Collect(maps.Values(parts)))
		again.update(fresh.look(false).changes)
		if !slices.EqualFunc(kept.Services.Slice(), again.Services.Slice(), func(a, b sources.Service) bool { return reflect.DeepEqual(a, b) }) {
			t.Errorf("kept\n%+v\nfresh\n%+v", kept.Services.Slice(), again.Services.Slice())
		}
		if !slices.Equal(kept.refused(), again.refused()) {
			t.Errorf("kept %v, fresh %v", kept.refused(), again.refused())
		}
	})
}

// happen applies one event to the catalog, and to the objects that it should have.
func happen(t *rapid.T, c *catalog, services map[string]manifest.Service, parts map[string]*manifest.EndpointSlice) {
	some := func(what string) string { return fmt.Sprintf("%s%d", what, rapid.IntRange(0, 3).Draw(t, what)) }
	switch rapid.IntRange(0, 5).Draw(t, "event") {
	case 0, 1:
		s := newCatalog("").service(svc(some("s"), rapid.SampledFrom([]string{"10.96.0.1", "10.96.0.2", "127.0.0.1", "None", "bad"}).Draw(t, "ip")))
		services[s.Metadata.Name] = s
		c.putService(s)
	case 2, 3:
		addrs := rapid.SliceOfN(rapid.SampledFrom([]string{"10.2.0.1", "10.2.0.2", "10.2.0.3", "bad"}), 0, 3).Draw(t, "addrs")
		e := slice(eps(some("e"), some("s"), addrs...))
		parts[e.Metadata.Name] = e
		c.putSlice(e)
	case 4:
		s := newCatalog("").service(svc(some("s"), ""))
		delete(services, s.Metadata.Name)
		c.dropService(s)
	case 5:
		e := slice(eps(some("e"), some("s")))
		delete(parts, e.Metadata.Name)
		c.dropSlice(e)
	}
	if rapid.IntRange(0, 9).Draw(t, "relist") == 0 {
		c.replaceServices(slices.Collect(maps.Values(services)))
		c.replaceSlices(slices.Collect(maps.Values(parts)))
	}
}

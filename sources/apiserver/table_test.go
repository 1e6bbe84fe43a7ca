//go:build !noapiserver

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/manifest"
)

// withCatalog runs an emitter in a synctest bubble over a catalog that fill changes.
func withCatalog(t *testing.T, o Options, fill func(c *catalog, emits chan emission)) {
	synctest.Test(t, func(t *testing.T) {
		emits := make(chan emission, 1000)
		c := newCatalog("")
		ctx, cancel := context.WithCancel(t.Context())
		e := &emitter{o: o, emit: func(t sources.Table, err error) { emits <- emission{t, err} }}
		go e.run(ctx, c)
		fill(c, emits)
		cancel()
		synctest.Wait()
	})
}

func small(n int) (manifest.Service, *manifest.EndpointSlice) {
	s := newCatalog("").service(svc(fmt.Sprintf("s%05d", n), fmt.Sprintf("10.96.%d.%d", n/250, n%250+1)))
	return s, slice(eps(s.Metadata.Name+"-1", s.Metadata.Name, fmt.Sprintf("10.2.%d.%d", n/250, n%250+1)))
}

func TestBurstIsOneTable(t *testing.T) {
	withCatalog(t, Options{}, func(c *catalog, emits chan emission) {
		c.replaceServices(nil)
		c.replaceSlices(nil)
		<-emits
		began := time.Now()
		for n := range 5 {
			s, e := small(n)
			c.putService(s)
			c.putSlice(e)
			time.Sleep(quietFor / 2)
		}
		first := <-emits
		if first.table.Services.Len() != 5 || time.Since(began) > 4*quietFor {
			t.Errorf("after %s: %s", time.Since(began), first)
		}
		if !first.table.Seen.Equal(began) {
			t.Errorf("seen at %s, want the oldest event's %s", first.table.Seen, began)
		}
		synctest.Wait()
		if len(emits) > 0 {
			t.Errorf("and %s", <-emits)
		}
	})
}

func TestRestlessIsNotForEver(t *testing.T) {
	withCatalog(t, Options{}, func(c *catalog, emits chan emission) {
		c.replaceServices(nil)
		c.replaceSlices(nil)
		<-emits
		for n := range 60 { // 300 ms in which it is never quiet
			s, _ := small(n)
			c.putService(s)
			time.Sleep(quietFor / 2)
		}
		time.Sleep(quietFor)
		synctest.Wait()
		if n := len(emits); n < 3 || n > 4 {
			t.Errorf("%d tables, want one for each 100 ms", n)
		}
	})
}

// TestNoNews: an event that changes no used field makes no table, nor does a resync.
func TestNoNews(t *testing.T) {
	withCatalog(t, Options{Resync: time.Minute}, func(c *catalog, emits chan emission) {
		s, e := small(1)
		c.replaceServices([]manifest.Service{s})
		c.replaceSlices([]*manifest.EndpointSlice{e})
		<-emits
		c.putService(s)
		c.putSlice(e)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if len(emits) > 0 {
			t.Errorf("emitted %s", <-emits)
		}
	})
}

// TestServedInPart: the parts of a service that cannot be served are left out and reported, and the rest is served. Nothing
// here depends on this node's facts, because the next table comes with the next event and not when they change.
func TestServedInPart(t *testing.T) {
	withCatalog(t, Options{}, func(c *catalog, emits chan emission) {
		s, e := small(1)
		s.Spec.Type, s.Spec.LoadBalancerSourceRanges = "LoadBalancer", []string{"192.0.2.0/24"}
		s.Spec.ExternalIPs = []string{"127.0.0.1", "192.168.1.1"}
		s.Status.LoadBalancer.Ingress = []manifest.Ingress{{IP: "192.168.1.1"}, {IP: "169.254.7.7"}}
		c.replaceServices([]manifest.Service{s})
		c.replaceSlices([]*manifest.EndpointSlice{e})
		got := <-emits
		want := []sources.VIP{{Addr: netip.MustParseAddr("192.168.1.1")}}
		if s := *got.table.Services.At(0); !slices.Equal(s.LoadBalancerIPs, want) || len(s.ClusterIPs) != 1 || len(s.ExternalIPs) > 0 || len(s.Endpoints) == 0 {
			t.Errorf("%+v", s)
		}
		var rejected *sources.RejectedError
		if !errors.As(got.err, &rejected) || len(rejected.Problems) != 2 {
			t.Errorf("%v", got.err)
		}
	})
}

// TestShared: after a change, the tables share the endpoints of other services, and earlier tables do not change.
func TestShared(t *testing.T) {
	c, tables := filled(100)
	before := tables.Services
	old := before.Slice()
	s, _ := small(7)
	s.Spec.ExternalIPs = []string{"192.0.2.7"}
	c.putService(s)
	tables.update(c.look(false).changes)
	for i, was := range before.All() {
		if &was.Endpoints[0] != &old[i].Endpoints[0] || len(was.ExternalIPs) > 0 {
			t.Errorf("service %d of a table that was sent has changed", i)
		}
		if same := &was.Endpoints[0] == &tables.Services.At(i).Endpoints[0]; same != (i != 7) {
			t.Errorf("service %d: shared %t", i, same)
		}
	}
	if len(tables.Services.At(7).ExternalIPs) != 1 {
		t.Errorf("%+v", *tables.Services.At(7))
	}
}

func filled(n int) (*catalog, *table) {
	c := newCatalog("")
	var services []manifest.Service
	var parts []*manifest.EndpointSlice
	for i := range n {
		s, e := small(i)
		services, parts = append(services, s), append(parts, e)
	}
	c.replaceServices(services)
	c.replaceSlices(parts)
	t := &table{}
	t.update(c.look(false).changes)
	return c, t
}

// TestDelta: a table says what changed in it, so that the loop need not compare all services.
func TestDelta(t *testing.T) {
	c, tables := filled(100)
	before := tables.Table
	c.putSlice(slice(eps("s00007-1", "s00007", "10.2.9.9")))
	tables.update(c.look(false).changes)
	tables.Services.At(50).Endpoints = nil // seen only by who compares all
	d := sources.Compare(before, tables.Table)
	if len(d.Changes) != 1 || d.Changes[0].Is != 7 || !d.OnlyEndpoints() {
		t.Errorf("differs in %+v", d)
	}
}

// BenchmarkChange is the change of an endpoint, from the reflector to the table.
func BenchmarkChange(b *testing.B) {
	for _, n := range []int{10, 1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c, t := filled(n)
			at, other := eps("s00007-1", "s00007", "10.2.0.8"), eps("s00007-1", "s00007", "10.2.0.9")
			b.ReportAllocs()
			for b.Loop() {
				at, other = other, at
				c.putSlice(slice(at))
				if !t.update(c.look(false).changes) {
					b.Fatal("no news")
				}
			}
		})
	}
}

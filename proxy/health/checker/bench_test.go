package checker

import (
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/sources"
)

// large has services with 5 endpoints each, all with the same check.
func large(services int) sources.Table {
	c := sources.DefaultHealthCheck()
	c.Probe.Type = sources.CheckTCP
	var t sources.Table
	for i := range services {
		s := sources.Service{
			Namespace: "default", Name: fmt.Sprintf("service-%05d", i), Type: sources.ClusterIP, HealthCheck: &c,
			Ports: []sources.Port{{Protocol: sources.TCP, Port: 80}},
		}
		for j := range 5 {
			s.Endpoints = append(s.Endpoints, sources.Endpoint{
				Addr: netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), byte(j + 1)}), Weight: 1, Ready: true,
				Ports: []sources.EndpointPort{{Protocol: sources.TCP, Port: 8080}},
			})
		}
		t.Services = t.Services.Append(s)
	}
	return t
}

// BenchmarkOverlay is what the loop waits for with 5,000 services and 25,000 targets: at a start, after a change of one
// endpoint's health, and after a table with one changed service.
func BenchmarkOverlay(b *testing.B) {
	tab := large(5000)
	settings := Settings{Defaults: sources.DefaultHealthCheck()}
	made := func() *Checker {
		c, err := New(Options{StateDir: b.TempDir(), Settings: settings, Log: slog.New(slog.DiscardHandler), Wake: func() {}})
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	have := &kernel.Observed{}
	b.Run("start", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			made().Overlay(sources.Merged{Table: tab}, have)
		}
	})
	b.Run("health", func(b *testing.B) {
		b.ReportAllocs()
		c := made()
		c.Overlay(sources.Merged{Table: tab}, have)
		key := health.Targets(tab)[12345].Key
		now := time.Now()
		for n := 0; b.Loop(); n++ {
			for range 3 {
				now = now.Add(time.Hour) // else it flaps
				c.mu.Lock()
				c.note(c.board.Record(key, health.Result{Good: n%2 == 1, At: now}))
				c.mu.Unlock()
			}
			c.Overlay(sources.Merged{Table: tab}, have)
		}
	})
	b.Run("table", func(b *testing.B) {
		b.ReportAllocs()
		c := made()
		c.Overlay(sources.Merged{Table: tab}, have)
		other := sources.Table{Services: sources.ServicesOf(tab.Services.Slice()...)}
		s := other.Services.At(1234)
		s.Endpoints = append([]sources.Endpoint(nil), s.Endpoints...)
		s.Endpoints[0].Weight = 2
		tables := []sources.Table{other, tab}
		for n := 0; b.Loop(); n++ {
			c.Overlay(sources.Merged{Table: tables[n%2]}, have)
		}
	})
	b.Run("follow a weight", func(b *testing.B) {
		b.ReportAllocs()
		c := made()
		change := c.following(tab, func(s *sources.Service) { s.Endpoints[0].Weight = 2 })
		for b.Loop() {
			change()
		}
	})
	b.Run("follow an endpoint", func(b *testing.B) {
		b.ReportAllocs()
		c := made()
		change := c.following(tab, func(s *sources.Service) { s.Endpoints = s.Endpoints[1:] })
		for b.Loop() {
			change()
		}
	})
	b.Run("view", func(b *testing.B) {
		b.ReportAllocs()
		c := made()
		c.follow(tab, nil)
		for b.Loop() {
			c.View()
		}
	})
}

// following follows a table. The function that it returns changes one service, or changes it back.
func (c *Checker) following(one sources.Table, change func(*sources.Service)) func() {
	other := sources.Table{Services: one.Services.With([]int{one.Services.Len() / 2}, func(i int) sources.Service {
		s := *one.Services.At(i)
		s.Endpoints = append([]sources.Endpoint(nil), s.Endpoints...)
		change(&s)
		return s
	})}
	one, other = one.After(other, sources.Compare(other, one)), other.After(one, sources.Compare(one, other))
	c.follow(one, nil)
	return func() {
		c.follow(other, nil)
		one, other = other, one
	}
}

// What a table costs in which a weight or an endpoint changed does not depend on the number of targets.
func TestFollow(t *testing.T) {
	changes := map[string]func(*sources.Service){
		"weight":   func(s *sources.Service) { s.Endpoints[0].Weight = 2 },
		"endpoint": func(s *sources.Service) { s.Endpoints = s.Endpoints[1:] },
	}
	for name, change := range changes {
		allocated := func(services int) float64 {
			c, err := New(Options{StateDir: t.TempDir(), Settings: Settings{Defaults: sources.DefaultHealthCheck()}, Log: slog.New(slog.DiscardHandler), Wake: func() {}})
			if err != nil {
				t.Fatal(err)
			}
			follow := c.following(large(services), change)
			n := testing.AllocsPerRun(10, follow)
			if name == "endpoint" {
				for range 2 {
					gone := len(c.targets)
					if follow(); len(c.targets)+gone != 10*services-1 {
						t.Errorf("%d targets, and %d before", len(c.targets), gone)
					}
				}
			}
			return n
		}
		if few, many := allocated(100), allocated(5000); many > 1.2*few {
			t.Errorf("%s: %v allocations among 25,000 targets, %v among 500", name, many, few)
		}
	}
}

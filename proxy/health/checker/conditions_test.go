package checker

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/health/probe"
	"github.com/svcproxy/svcproxy/sources"
)

// TestDarkSubject: a condition stands while more services become dark. Its hint names an endpoint of the service that it names.
func TestDarkSubject(t *testing.T) {
	now := time.Unix(1000, 0)
	dark := func(reason string, targets, services int, first, service string) darkCheck {
		return darkCheck{health.Dark{
			Type: sources.CheckTCP, Reason: reason, First: health.Key{Addr: netip.MustParseAddrPort(first)}, Targets: targets, Services: services, Last: now.Add(-5 * time.Second),
		}, []string{service}}
	}
	for _, c := range []struct {
		dark darkCheck
		want string
	}{
		{
			dark("void: no memory", 1, 1, "10.2.0.9:80", "web"),
			"tcp checks: no memory: web, 10.2.0.9:80; the last result is 5s old [correct that on this node; try it by svcproxy health probe web/10.2.0.9]",
		},
		{
			dark("void: no memory", 4, 3, "10.2.0.1:80", "api"),
			"tcp checks: no memory: api and 2 more services, 10.2.0.1:80 and 3 more endpoints; the last result is 5s old [correct that on this node; try it by svcproxy health probe api/10.2.0.1]",
		},
	} {
		list := darkConditions([]darkCheck{dark("void: no route", 1, 1, "10.2.0.7:80", "dns"), c.dark}, now)
		if len(list) != 2 || list[1].Subject != "tcp checks: no route" {
			t.Fatalf("%v", list)
		}
		if got := fmt.Sprintf("%s [%s]", list[0], list[0].Hint); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// TestLateNamesItsLimit: probes that wait for a place are a condition, also those of programs, and its hint names the limit.
func TestLateNamesItsLimit(t *testing.T) {
	now := time.Unix(1000, 0)
	late := probe.Starved{Service: "web", Targets: 2, Since: now.Add(-7 * time.Second)}
	for want, of := range map[string]func(*probe.Starved){
		"checks of web: health.maxInFlight":         func(*probe.Starved) {},
		"checks of web: health.maxProbesPerSecond":  func(s *probe.Starved) { s.Paced = true },
		"exec checks of web: health.execMaxRunning": func(s *probe.Starved) { s.Programs = true },
	} {
		s := late
		of(&s)
		list := lateConditions([]probe.Starved{s, {Service: "soon", Targets: 1, Since: now.Add(-4 * time.Second)}}, now)
		if len(list) != 1 {
			t.Fatalf("%v", list)
		}
		subject, limit, _ := strings.Cut(want, ": ")
		if c := list[0]; c.Subject != subject || !strings.HasSuffix(c.Hint, "or raise "+limit) ||
			c.Text != "probes of 2 endpoints wait for a place, the first for 7s: the last results count" {
			t.Errorf("%+v, want %s", c, want)
		}
	}
}

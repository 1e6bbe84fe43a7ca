package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/condition"
	"github.com/svcproxy/svcproxy/sources"
)

// A limit that is met now and then is one condition, which ends when it has not been met for a while.
func TestLimitsDoNotFlap(t *testing.T) {
	l, now := lingering{}, time.Now()
	seen := []condition.Condition{{Subject: "files", Text: "none left"}}
	for i, c := range []struct {
		after time.Duration
		seen  []condition.Condition
		want  int
	}{{0, nil, 0}, {limitsPeriod, seen, 1}, {limitsPeriod, nil, 1}, {limitsPeriod, seen, 1}, {limitsRest, nil, 1}, {1, nil, 0}} {
		now = now.Add(c.after)
		if got := l.with(now, limitsRest, c.seen); len(got) != c.want {
			t.Errorf("look %d: %v", i, got)
		}
	}
}

// A meter is full if it had no room for a client since the last look, whatever was counted before.
func TestFullMeters(t *testing.T) {
	open := &sources.Service{Name: "open", Clients: &sources.Clients{PerClient: true}}
	closed := &sources.Service{Name: "closed", Clients: &sources.Clients{PerClient: true, Closed: true}}
	list := []*sources.Service{open, closed}
	at := func(unmetered, full uint64) map[string]kernel.Refusals {
		return map[string]kernel.Refusals{
			kernel.HashOf("", "open"):   {kernel.OverRate: unmetered + full, kernel.Unmetered: unmetered},
			kernel.HashOf("", "closed"): {kernel.OverRate: unmetered + full, kernel.MeterFull: full},
		}
	}
	for i, c := range []struct {
		before, now map[string]kernel.Refusals
		want        []string
	}{
		{at(5, 5), at(5, 5), nil},
		{at(5, 5), at(6, 5), []string{"open: more have no limit"}},
		{at(5, 5), at(5, 9), []string{"closed: more get no connections"}},
		{nil, at(1, 1), []string{"open: more have no limit", "closed: more get no connections"}},
		{at(5, 5), nil, nil},
	} {
		got := fullMeters(list, c.before, c.now)
		if len(got) != len(c.want) {
			t.Errorf("%d: %v, want %v", i, got, c.want)
			continue
		}
		for k, want := range c.want {
			subject, text, _ := strings.Cut(want, ": ")
			if strings.TrimPrefix(got[k].Subject, "/") != subject || !strings.Contains(got[k].Text, text) {
				t.Errorf("%d: %v, want %v", i, got[k], want)
			}
		}
	}
}

package health

import (
	"testing"
	"time"
)

func TestPlaces(t *testing.T) {
	table := readTable(t, `
service dns
port dns UDP 53
endpoint 10.2.0.1 dns=53
service web
port http TCP 80
port https TCP 443
endpoint 10.2.0.1 http=8080 https=8443
endpoint 10.2.0.2 http=8080 https=8443
`)
	for target, want := range map[string]int{"10.2.0.1": 3, "web/10.2.0.1": 2, "10.2.0.1:8443": 1, "10.2.0.0/24": 5, "10.3.0.1": 0, "node=a": 0} {
		s, err := ParseSelector(target)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Places(table); len(got) != want {
			t.Errorf("%s: %v, want %d", target, got, want)
		}
	}
}

// TestOrderEvents: an event says which order it is about, who gave it or took it back, and why.
func TestOrderEvents(t *testing.T) {
	drain, heavy := order(t, "web/10.2.0.1", Drain), order(t, "10.2.0.0/24", Reweigh)
	drain.Until = epoch.Add(time.Hour)
	heavy.Weight, heavy.UID, heavy.By, heavy.Why = Weight{50, true}, 1000, "ann", ""
	for _, c := range []struct {
		e    Event
		want string
	}{
		{Event{Kind: Ordered, Order: drain}, `order drain web/10.2.0.1 until ` + drain.Until.UTC().Format(time.RFC3339) + ` by root (uid 0): "kernel upgrade"`},
		{Event{Kind: Ordered, Order: heavy}, `order weight 10.2.0.0/24 50% by ann (uid 1000)`},
		{Event{Kind: TakenBack, Order: drain, Author: Author{"ann", 1000, "done"}}, `order-taken-back drain web/10.2.0.1 by ann (uid 1000): "done"`},
		{Event{Kind: OrderOver, Order: drain, Reason: "its time is over"}, `order-over drain web/10.2.0.1: its time is over`},
	} {
		if got := c.e.String(); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}

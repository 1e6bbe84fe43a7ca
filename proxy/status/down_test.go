package status

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

// TestDownLines: endpoints that are down are named with reason and time, ten at most, and no others are.
func TestDownLines(t *testing.T) {
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	endpoint := func(last byte, h *EndpointHealth) Endpoint {
		return Endpoint{Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 2, 0, last}), 80), Health: h}
	}
	st := Status{Services: []Service{
		{Name: "plain", Endpoints: []Endpoint{endpoint(1, nil)}},
		{Name: "web", Health: &ServiceHealth{Checked: 4, Up: 1, Down: 2, Held: 1}, Endpoints: []Endpoint{
			endpoint(1, &EndpointHealth{State: "up"}), endpoint(2, &EndpointHealth{State: "down", Held: true}),
			endpoint(3, &EndpointHealth{State: "down", Reason: "refused", Since: since}),
			endpoint(4, &EndpointHealth{State: "recovering"}),
		}},
	}}
	want := []string{"web 10.2.0.3:80: refused (since 2026-03-01T12:00:00Z)", "web 10.2.0.4:80: down"}
	if got := downLines(st.Services); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for service, want := range map[string]bool{"": true, "web": true, "plain": false} {
		if got := st.AnyDown(service); got != want {
			t.Errorf("an endpoint of %q is down: %t, want %t", service, got, want)
		}
	}
	many := Service{Name: "many", Health: &ServiceHealth{Down: 13}}
	for i := range byte(13) {
		many.Endpoints = append(many.Endpoints, endpoint(i, &EndpointHealth{State: "down"}))
	}
	if got := downLines([]Service{many}); len(got) != maxDown+1 || got[maxDown] != "and 3 more: svcproxy health" {
		t.Errorf("of 13: %q", got)
	}
}

package web

import (
	"testing"

	"github.com/svcproxy/svcproxy/proxy/status"
)

// A service with an endpoint that is down is in trouble, and orders are bounded like other lists.
func TestViewOfHealth(t *testing.T) {
	s := status.Status{
		Health: &status.Health{Overrides: make([]status.Override, 2*maxLines)},
		Services: []status.Service{
			{Name: "default/down", State: status.Serving, Health: &status.ServiceHealth{Checked: 3, Up: 2, Down: 1}},
			{Name: "default/up", State: status.Serving, Health: &status.ServiceHealth{Checked: 3, Up: 3}},
			{Name: "default/unchecked", State: status.Serving},
		},
	}
	a := view{show: "trouble", limit: 10}.of(s)
	if len(a.Services) != 1 || a.Services[0].Name != "default/down" {
		t.Errorf("in trouble: %+v", a.Services)
	}
	if len(a.Health.Overrides) != maxLines || len(s.Health.Overrides) != 2*maxLines {
		t.Errorf("%d orders of %d", len(a.Health.Overrides), len(s.Health.Overrides))
	}
}

package metrics

import (
	"testing"

	"github.com/svcproxy/svcproxy/proxy/status"
)

// The counters of a service never fall, also when its addresses go or are made again.
func TestServiceTraffic(t *testing.T) {
	var traffic serviceTraffic
	for i, step := range []struct{ read, want uint64 }{
		{100, 100}, {150, 150},
		{40, 150}, // one of its addresses is gone
		{60, 170},
		{0, 170}, // all were made again
		{5, 175},
	} {
		services := []status.Service{{Name: "default/other"}, {Name: "default/web", Traffic: status.Traffic{Connections: step.read, OutBytes: status.Count(2 * step.read)}}}
		got := traffic.update(services)[1]
		if want := (status.Traffic{Connections: step.want, OutBytes: status.Count(2 * step.want)}); got != want {
			t.Errorf("step %d: %+v, want %+v", i, got, want)
		}
	}
	// A service that went and came back starts at zero.
	traffic.update(nil)
	if got := traffic.update([]status.Service{{Name: "default/web", Traffic: status.Traffic{Connections: 3}}})[0]; got.Connections != 3 {
		t.Errorf("%+v", got)
	}
	if len(traffic.services) != 1 {
		t.Errorf("%d services are remembered", len(traffic.services))
	}
}

package metrics

import (
	"testing"

	"github.com/svcproxy/svcproxy/proxy/status"
)

// What is told of a service never falls, whatever becomes of its addresses.
func TestLedger(t *testing.T) {
	var l ledger
	for i, step := range []struct{ read, want uint64 }{
		{100, 100}, {150, 150},
		{40, 150}, // one of its addresses is gone
		{60, 170},
		{0, 170}, // all were made anew
		{5, 175},
	} {
		services := []status.Service{{Name: "default/other"}, {Name: "default/web", Traffic: status.Traffic{Connections: step.read, OutBytes: 2 * step.read}}}
		got := l.post(services)[1]
		if want := (status.Traffic{Connections: step.want, OutBytes: 2 * step.want}); got != want {
			t.Errorf("step %d: %+v, want %+v", i, got, want)
		}
	}
	// One that is gone comes back as another.
	l.post(nil)
	if got := l.post([]status.Service{{Name: "default/web", Traffic: status.Traffic{Connections: 3}}})[0]; got.Connections != 3 {
		t.Errorf("%+v", got)
	}
	if len(l.pages) != 1 {
		t.Errorf("%d pages", len(l.pages))
	}
}

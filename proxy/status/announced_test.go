package status

import (
	"net/netip"
	"testing"
	"time"
)

// A reload names a VIP that it waits for, but a sync in progress comes first.
func TestWaits(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	st := Status{Time: now, Announced: []Announced{{Address: netip.MustParseAddr("10.0.0.1"), Announced: true}}}
	for _, c := range []struct {
		until   time.Time
		running *Running
		want    string
	}{
		{time.Time{}, nil, "no sync is in progress"},
		{now.Add(7 * time.Second), nil, "10.0.0.1 was withdrawn, and is served for 7s more, until routers know"},
		{now.Add(7 * time.Second), &Running{Text: "reads"}, "reads"},
	} {
		st.Announced[0].Until, st.Sync.Running = c.until, c.running
		if got := st.Waits(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

package status

import (
	"net/netip"
	"slices"
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

// The overview says which VIPs attract clients: by BGP, or since keepalived gave them to a link of this node.
func TestWhichVIPsAreHere(t *testing.T) {
	vip := func(addr, link string, announced, moved bool) Announced {
		return Announced{Address: netip.MustParseAddr(addr), Link: link, Announced: announced, Moved: moved}
	}
	for want, vips := range map[string][]Announced{
		"":                                   nil,
		"announced: 0 of 1 VIP":              {vip("192.0.2.1", "", false, false)},
		"announced: 1 of 2 VIPs (192.0.2.2)": {vip("192.0.2.1", "", false, false), vip("192.0.2.2", "", true, false)},
		"VIPs here: none (backup)":           {vip("192.0.2.1", "", true, true)},
		"VIPs here: 1 of 1 (eth0)":           {vip("192.0.2.1", "eth0", false, true)},
		"VIPs here: 2 of 2 (eth0)":           {vip("192.0.2.1", "eth0", true, true), vip("192.0.2.2", "eth0", true, true)},
		"VIPs here: 1 of 2 (192.0.2.2 on eth0)": {
			vip("192.0.2.1", "", true, true), vip("192.0.2.2", "eth0", true, true)},
		"announced: 6 of 6 VIPs (192.0.2.1, 192.0.2.1, 192.0.2.1, 192.0.2.1, and 2 more)": slices.Repeat(
			[]Announced{vip("192.0.2.1", "", true, false)}, 6),
	} {
		p := page{st: &Status{Announced: vips}}
		if got := p.announced(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	drained := page{st: &Status{Announced: []Announced{vip("192.0.2.1", "", false, true)}, Daemon: Daemon{Drain: new(NodeDrain)}}}
	if got, want := drained.announced(), "VIPs here: none (drained)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	down := vip("192.0.2.1", "eth0", false, true)
	down.Reason = "port 80/tcp: 0 of 2 endpoints can serve, and it needs 1"
	if got, want := down.text(), "on eth0, not offered to keepalived: "+down.Reason; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

package status

import (
	"net/netip"
	"slices"
	"testing"
)

// What becomes of open connections depends on what the servers see, connection sync and the scheduler.
func TestHandover(t *testing.T) {
	const moves = "keepalived will move the VIPs to the other node"
	at := netip.MustParseAddrPort("192.0.2.80:80")
	service := func(name string, v Virtual) Service {
		v.Address = at
		return Service{Name: name, Virtuals: []Virtual{v}}
	}
	services := []Service{
		service("seen", Virtual{Kind: KindClusterIP, Scheduler: "rr"}),
		service("hidden", Virtual{Kind: KindLoadBalancer, Scheduler: "mh"}),
		service("alike", Virtual{Kind: KindLoadBalancer, Scheduler: "mh", Forward: "direct"}),
		service("sloppy", Virtual{Kind: KindClusterIP, Scheduler: "mh"}),
		{Name: "other", Virtuals: []Virtual{{Address: netip.MustParseAddrPort("192.0.2.81:80")}}},
	}
	here := []Announced{
		{Address: at.Addr(), Moved: true, Link: "eth0"}, {Address: netip.MustParseAddr("192.0.2.81"), Moved: true}}
	for what, c := range map[string]struct {
		Status
		want []string
	}{
		"backup": {Status{Services: services, Announced: here[1:]}, nil},
		"off":    {Status{Services: services}, nil},
		"alone": {Status{Services: services, Announced: here}, []string{moves,
			"connections of alike go on, if the other node has the same backends (scheduler mh)",
			`connections of sloppy go on only with ipvs.sloppyTCP = "on" on the other node`,
			"connections of hidden end: keepClientAddress is false",
			"connections of seen end: there is no connection sync, and the scheduler is not mh"}},
		"sync": {
			Status{Services: services, Announced: here, ConnSync: []ConnSync{{Role: "master", State: ConnSyncRunning}}},
			[]string{moves, "connections of seen, alike, sloppy go on, by connection sync",
				"connections of hidden end: keepClientAddress is false"}},
		"rules": {Status{Services: services[:1], Announced: here, Uncounted: true},
			[]string{moves, "connections of seen end: only mode ipvs can keep them"}},
	} {
		if got := c.Status.Handover(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}

package events

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/svcproxy/svcproxy/proxy/announce"
)

// What keepalived does with a VIP is an event, and what it is told, but not what it is told first.
func TestMovedVIPs(t *testing.T) {
	vip := func(link string, offered bool) announce.VIP {
		v := announce.VIP{
			Addr: netip.MustParseAddr("192.0.2.80"), Services: []string{"web"}, Moved: true, Link: link, Announced: offered,
		}
		if !offered {
			v.Reason = "down"
		}
		return v
	}
	for _, c := range []struct {
		before []announce.VIP
		now    announce.VIP
		want   []string
	}{
		{nil, vip("", true), nil},
		{nil, vip("eth0", true), []string{"vipHere 192.0.2.80 on eth0"}},
		{[]announce.VIP{vip("", true)}, vip("eth0", true), []string{"vipHere 192.0.2.80 on eth0"}},
		{[]announce.VIP{vip("eth0", true)}, vip("eth0", true), nil},
		{[]announce.VIP{vip("eth0", true)}, vip("eth0", false), []string{"notOffered 192.0.2.80: down"}},
		{[]announce.VIP{vip("eth0", false)}, vip("", false), []string{"vipAway 192.0.2.80 is no longer on eth0"}},
		{[]announce.VIP{vip("", false)}, vip("", true), []string{"offered 192.0.2.80"}},
	} {
		var got []string
		for _, e := range ofAnnouncements(c.before, []announce.VIP{c.now}) {
			got = append(got, fmt.Sprintf("%s %s", e.Kind, e.Text))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v, %+v: %q, want %q", c.before, c.now, got, c.want)
		}
	}
}

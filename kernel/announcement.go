package kernel

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Announcement tells a routing daemon that this node serves a VIP: an unreachable route
// with RouteProtocol, in a table that the daemon reads. A VIP is local, so no packet
// takes the route.
type Announcement struct {
	Addr   netip.Addr
	Table  uint32
	Metric uint32 // at least 1: IPv6 has no 0
}

var announcements = list[Announcement]{
	get:     func(s State) []Announcement { return s.Announcements },
	set:     func(s *State, all []Announcement) { s.Announcements = all },
	compare: Announcement.Compare,
	read:    parseAnnouncement,
}

// Kind is KindAnnouncement.
func (Announcement) Kind() Kind { return KindAnnouncement }

// Compare orders by address, table and metric. To the kernel, routes with different
// metrics are different routes. So a new metric is an Announcement that is added before
// the old one is removed.
func (a Announcement) Compare(o Announcement) int {
	return cmp.Or(a.Addr.Compare(o.Addr), cmp.Compare(a.Table, o.Table), cmp.Compare(a.Metric, o.Metric))
}

// String is the ip -batch form.
func (a Announcement) String() string {
	return fmt.Sprintf("route add unreachable %s/%d table %d metric %d proto %d", a.Addr, a.Addr.BitLen(), a.Table,
		a.Metric, RouteProtocol)
}

func (a Announcement) command(v Verb, _ Object) string { return addOrDel(v, a) }

// parseAnnouncement reads: route add unreachable ADDRESS/LENGTH table N metric N proto 143.
func parseAnnouncement(f []string) (Announcement, error) {
	if len(f) != 10 || strings.Join(f[:3], " ") != "route add unreachable" || f[4] != "table" || f[6] != "metric" ||
		strings.Join(f[8:], " ") != fmt.Sprintf("proto %d", RouteProtocol) {
		return Announcement{}, fmt.Errorf("want: route add unreachable ADDRESS/LENGTH table N metric N proto %d",
			RouteProtocol)
	}
	a, err := netip.ParsePrefix(f[3])
	if err != nil || !a.IsSingleIP() {
		return Announcement{}, fmt.Errorf("route %q: want the full length, /32 or /128", f[3])
	}
	table, err := strconv.ParseUint(f[5], 10, 32)
	if err != nil || table == 0 {
		return Announcement{}, fmt.Errorf("table %q: want a number from 1 to 4294967295", f[5])
	}
	metric, err := strconv.ParseUint(f[7], 10, 32)
	if err != nil || metric == 0 {
		return Announcement{}, fmt.Errorf("metric %q: want a number from 1 to 4294967295", f[7])
	}
	return Announcement{a.Addr(), uint32(table), uint32(metric)}, nil
}

// route reads a line of either kind that is a route: Route or Announcement.
func (p *parser) route(f []string) error {
	if len(f) > 2 && f[2] == "unreachable" {
		return announcements.parse(&p.o.State, f)
	}
	return routes.parse(&p.o.State, f)
}

package kernel

import (
	"fmt"
	"net/netip"
	"strings"
)

// RouteProtocol marks the local routes that svcproxy owns: an rtm_protocol that
// neither the kernel (linux/rtnetlink.h) nor iproute2 (rt_protos) gives a name.
const RouteProtocol = 143

// Route makes a VIP local without binding it: `local ADDR dev lo table local`,
// with RouteProtocol.
type Route struct{ Addr netip.Addr }

var routes = list[Route]{
	get:     func(s State) []Route { return s.Routes },
	set:     func(s *State, all []Route) { s.Routes = all },
	compare: Route.Compare,
	same:    sameRoute,
	read:    parseRoute,
}

// Kind is KindRoute.
func (Route) Kind() Kind { return KindRoute }

// VIP makes Route a Local.
func (r Route) VIP() netip.Addr { return r.Addr }

// Compare orders by address.
func (r Route) Compare(o Route) int { return r.Addr.Compare(o.Addr) }

func sameRoute(a, b *Route) bool { return a.Addr == b.Addr }

// String is the ip -batch form.
func (r Route) String() string {
	return fmt.Sprintf("route add local %s/%d dev lo table local proto %d", r.Addr, r.Addr.BitLen(), RouteProtocol)
}

func (r Route) command(v Verb, _ Object) string { return addOrDel(v, r) }

// parseRoute reads: route add local ADDRESS/LENGTH dev lo table local proto 143.
func parseRoute(f []string) (Route, error) {
	if len(f) != 10 || strings.Join(f[:3], " ") != "route add local" ||
		strings.Join(f[4:], " ") != fmt.Sprintf("dev lo table local proto %d", RouteProtocol) {
		return Route{}, fmt.Errorf("want: route add local ADDRESS/LENGTH dev lo table local proto %d", RouteProtocol)
	}
	a, err := netip.ParsePrefix(f[3])
	if err != nil || !a.IsSingleIP() {
		return Route{}, fmt.Errorf("route %q: want the full length, /32 or /128", f[3])
	}
	return Route{Addr: a.Addr()}, nil
}

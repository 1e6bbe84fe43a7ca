package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// loopback is the index of lo in every network namespace (LOOPBACK_IFINDEX of net/net_namespace.h).
const loopback = 1

// ReadRoutes returns the routes with our protocol, sorted: those in table local that make VIPs local,
// and those of any table that announce VIPs. The kernel filters out the others.
func (l *Links) ReadRoutes() (routes []kernel.Route, announced []kernel.Announcement, err error) {
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		start, begin := len(routes), len(announced)
		err := l.dump(f.String()+" routes of VIPs", func(b *nl.Batch) {
			b.Begin(unix.RTM_GETROUTE, 0)
			b.Raw([]byte{uint8(f), 0, 0, 0, unix.RT_TABLE_UNSPEC, kernel.RouteProtocol, 0, unix.RTN_UNSPEC, 0, 0, 0, 0})
		}, func() { routes, announced = routes[:start], announced[:begin] }, func(p []byte) error {
			a, ok, err := decodeVIPRoute(p)
			// A kernel without IPv6 lists the routes of IPv4 instead.
			if ok && kernel.FamilyOf(a) == f {
				routes = append(routes, kernel.Route{Addr: a})
			}
			if ok || err != nil {
				return err
			}
			o, ok, err := decodeAnnouncement(p)
			if ok && kernel.FamilyOf(o.Addr) == f {
				announced = append(announced, o)
			}
			return err
		})
		// A new namespace has no table before its first route.
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return nil, nil, err
		}
	}
	kernel.SortFunc(routes, kernel.Route.Compare)
	kernel.SortFunc(announced, kernel.Announcement.Compare)
	return slices.Compact(routes), slices.Compact(announced), nil
}

// decodeVIPRoute decodes a route that a kernel.Route made. ok is false for any other route.
func decodeVIPRoute(p []byte) (vip netip.Addr, ok bool, err error) {
	if len(p) < unix.SizeofRtMsg {
		return netip.Addr{}, false, fmt.Errorf("route message of %d bytes", len(p))
	}
	f := kernel.Family(p[0])
	switch {
	case f != kernel.IPv4 && f != kernel.IPv6,
		int(p[1]) != f.Bits(), // length of the destination
		p[4] != unix.RT_TABLE_LOCAL,
		p[5] != kernel.RouteProtocol, // without strict checking the kernel lists all routes
		p[7] != unix.RTN_LOCAL,
		binary.NativeEndian.Uint32(p[8:])&unix.RTM_F_CLONED != 0:
		return netip.Addr{}, false, nil
	}
	device := 0
	a := nl.ParseAttrs(p[unix.SizeofRtMsg:])
	for a.Next() && err == nil {
		switch a.Type() {
		case unix.RTA_DST:
			vip, err = ip(f, a.Bytes())
		case unix.RTA_OIF:
			device = int(int32(a.U32()))
		}
	}
	if err == nil {
		err = a.Err()
	}
	return vip, err == nil && vip.IsValid() && device == loopback, err
}

// putRoute adds without NLM_F_EXCL. While the VIP is also bound, the kernel has its own local route
// for it. With the flag, IPv4 would take both for the same and refuse ours. Without it both exist,
// and ours stays when the address goes. Removing names our protocol, so that no other program's
// route matches.
func (a *applying) putRoute(i int, verb kernel.Verb, o kernel.Route) error {
	switch verb {
	case kernel.Add:
		a.batch.Begin(unix.RTM_NEWROUTE, unix.NLM_F_CREATE)
	case kernel.Remove:
		if err := a.waitLocal(o.Addr); err != nil {
			return err
		}
		a.batch.Begin(unix.RTM_DELROUTE, 0)
	default:
		return errors.New("a route cannot be changed")
	}
	f := kernel.FamilyOf(o.Addr)
	a.batch.Raw([]byte{uint8(f), uint8(f.Bits()), 0, 0,
		unix.RT_TABLE_LOCAL, kernel.RouteProtocol, unix.RT_SCOPE_HOST, unix.RTN_LOCAL, 0, 0, 0, 0})
	a.batch.Attr(unix.RTA_DST, o.Addr.AsSlice())
	a.batch.U32(unix.RTA_OIF, loopback)
	a.batch.End()
	a.sent = append(a.sent, i)
	return nil
}

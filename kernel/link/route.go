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

// loopback is the index of lo in every network namespace (LOOPBACK_IFINDEX of
// the kernel's net/net_namespace.h).
const loopback = 1

// ReadRoutes returns the VIPs' local routes, sorted: those of the table local
// with our protocol. The kernel leaves out the others, one for each address of
// the node, before they are copied.
func (l *Links) ReadRoutes() ([]kernel.Route, error) {
	var routes []kernel.Route
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		start := len(routes)
		err := l.dump(f.String()+" routes of VIPs", func(b *nl.Batch) {
			b.Begin(unix.RTM_GETROUTE, 0)
			b.Raw([]byte{uint8(f), 0, 0, 0, unix.RT_TABLE_LOCAL, kernel.RouteProtocol, 0, unix.RTN_LOCAL, 0, 0, 0, 0})
		}, func() { routes = routes[:start] }, func(p []byte) error {
			a, ok, err := decodeVIPRoute(p)
			// A kernel without IPv6 lists IPv4's routes instead.
			if ok && kernel.FamilyOf(a) == f {
				routes = append(routes, kernel.Route{Addr: a})
			}
			return err
		})
		// The table of a new namespace is made with its first route.
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return nil, err
		}
	}
	slices.SortFunc(routes, func(a, b kernel.Route) int { return a.Addr.Compare(b.Addr) })
	return slices.Compact(routes), nil
}

// decodeVIPRoute reads a route that a kernel.Route makes; anything else is not ok.
func decodeVIPRoute(p []byte) (vip netip.Addr, ok bool, err error) {
	if len(p) < unix.SizeofRtMsg {
		return netip.Addr{}, false, fmt.Errorf("route message of %d bytes", len(p))
	}
	f := kernel.Family(p[0])
	switch {
	case f != kernel.IPv4 && f != kernel.IPv6,
		int(p[1]) != f.Bits(), // destination's length
		p[4] != unix.RT_TABLE_LOCAL,
		p[5] != kernel.RouteProtocol, // kernels without strict checking list all
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

// putRoute leaves out NLM_F_EXCL: while the VIP is bound too, the kernel has a
// local route of its own for it, which IPv4 would take for the same. Without it
// ours stands beside it, and takes its place when the address goes. Removing
// names our protocol, so the kernel looks past anybody else's.
func (a *applying) putRoute(i int, verb kernel.Verb, o kernel.Route) error {
	switch verb {
	case kernel.Add:
		a.batch.Begin(unix.RTM_NEWROUTE, unix.NLM_F_CREATE)
	case kernel.Remove:
		if err := a.settle(o.Addr); err != nil {
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

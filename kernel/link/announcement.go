package link

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// decodeAnnouncement decodes a route that a kernel.Announcement made, in any table. ok is false for
// any other route.
func decodeAnnouncement(p []byte) (o kernel.Announcement, ok bool, err error) {
	if len(p) < unix.SizeofRtMsg {
		return kernel.Announcement{}, false, fmt.Errorf("route message of %d bytes", len(p))
	}
	f := kernel.Family(p[0])
	switch {
	case f != kernel.IPv4 && f != kernel.IPv6,
		int(p[1]) != f.Bits(),        // length of the destination
		p[3] != 0,                    // TOS
		p[5] != kernel.RouteProtocol, // without strict checking the kernel lists all routes
		p[7] != unix.RTN_UNREACHABLE,
		binary.NativeEndian.Uint32(p[8:])&unix.RTM_F_CLONED != 0:
		return kernel.Announcement{}, false, nil
	}
	o.Table = uint32(p[4]) // RTA_TABLE has those above 255
	a := nl.ParseAttrs(p[unix.SizeofRtMsg:])
	for a.Next() && err == nil {
		switch a.Type() {
		case unix.RTA_DST:
			o.Addr, err = ip(f, a.Bytes())
		case unix.RTA_TABLE:
			o.Table = a.U32()
		case unix.RTA_PRIORITY:
			o.Metric = a.U32()
		}
	}
	if err == nil {
		err = a.Err()
	}
	return o, err == nil && o.Addr.IsValid(), err
}

// putAnnouncement adds with NLM_F_EXCL: a route of another program with the same address, table and
// metric stays, and the op fails with EEXIST. Removing names protocol, type and metric, so that no
// other program's route matches.
func (a *applying) putAnnouncement(i int, verb kernel.Verb, o kernel.Announcement) error {
	switch verb {
	case kernel.Add:
		a.batch.Begin(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	case kernel.Remove:
		a.batch.Begin(unix.RTM_DELROUTE, 0)
	default:
		return errors.New("an announcement cannot be changed")
	}
	f := kernel.FamilyOf(o.Addr)
	a.batch.Raw([]byte{uint8(f), uint8(f.Bits()), 0, 0,
		unix.RT_TABLE_UNSPEC, kernel.RouteProtocol, unix.RT_SCOPE_UNIVERSE, unix.RTN_UNREACHABLE, 0, 0, 0, 0})
	a.batch.Attr(unix.RTA_DST, o.Addr.AsSlice())
	a.batch.U32(unix.RTA_TABLE, o.Table)
	a.batch.U32(unix.RTA_PRIORITY, o.Metric)
	a.batch.End()
	a.sent = append(a.sent, i)
	return nil
}

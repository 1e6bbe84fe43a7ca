package link

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// device is the content of one RTM_NEWLINK message.
type device struct {
	index int
	name  string
	alias string // as an operator or program has named it for people
	kind  string // "" for hardware and lo
	// For a bridge: its packets pass iptables whatever the sysctls say (IFLA_BR_NF_CALL_IPTABLES).
	calls4, calls6 bool
	mtu            int // 0 of a loopback
}

func decodeLink(p []byte) (d device, err error) {
	if len(p) < unix.SizeofIfInfomsg {
		return device{}, fmt.Errorf("link message of %d bytes", len(p))
	}
	d.index = int(int32(binary.NativeEndian.Uint32(p[4:])))
	a := nl.ParseAttrs(p[unix.SizeofIfInfomsg:])
	for a.Next() {
		switch a.Type() {
		case unix.IFLA_IFNAME:
			d.name = a.Text()
		case unix.IFLA_IFALIAS:
			d.alias = a.Text()
		case unix.IFLA_MTU:
			if binary.NativeEndian.Uint32(p[8:])&unix.IFF_LOOPBACK == 0 {
				d.mtu = int(a.U32())
			}
		case unix.IFLA_LINKINFO:
			if err := d.info(a.Nested()); err != nil {
				return device{}, err
			}
		}
	}
	return d, a.Err()
}

// info reads the attributes of a kind. The kind itself comes first.
func (d *device) info(a nl.Attrs) error {
	for a.Next() {
		switch {
		case a.Type() == unix.IFLA_INFO_KIND:
			d.kind = a.Text()
		case a.Type() == unix.IFLA_INFO_DATA && d.kind == "bridge":
			data := a.Nested()
			for data.Next() {
				switch data.Type() {
				case unix.IFLA_BR_NF_CALL_IPTABLES:
					d.calls4 = data.U8() != 0
				case unix.IFLA_BR_NF_CALL_IP6TABLES:
					d.calls6 = data.U8() != 0
				}
			}
			if data.Err() != nil {
				return data.Err()
			}
		}
	}
	return a.Err()
}

// address is the content of one RTM_NEWADDR message.
type address struct {
	prefix netip.Prefix // the node's own address, with the length of its network
	index  int          // of its device
	scope  uint8
	flags  uint32
}

// addrKey identifies an address on a device.
type addrKey struct {
	addr  netip.Addr
	index int
}

// decodeAddr decodes an address. ok is false for families other than IPv4 and IPv6.
func decodeAddr(p []byte) (x address, ok bool, err error) {
	if len(p) < unix.SizeofIfAddrmsg {
		return address{}, false, fmt.Errorf("address message of %d bytes", len(p))
	}
	family := kernel.Family(p[0])
	if family != kernel.IPv4 && family != kernel.IPv6 {
		return address{}, false, nil
	}
	bits := int(p[1])
	x.flags, x.scope = uint32(p[2]), p[3]
	x.index = int(int32(binary.NativeEndian.Uint32(p[4:])))
	var local, peer netip.Addr
	a := nl.ParseAttrs(p[unix.SizeofIfAddrmsg:])
	for a.Next() && err == nil {
		switch a.Type() {
		case unix.IFA_LOCAL:
			local, err = ip(family, a.Bytes())
		case unix.IFA_ADDRESS:
			peer, err = ip(family, a.Bytes())
		case unix.IFA_FLAGS:
			x.flags = a.U32()
		}
	}
	if err == nil {
		err = a.Err()
	}
	if err != nil {
		return address{}, false, err
	}
	// On a point-to-point link IFA_ADDRESS is the other end. On other links IPv6 has no IFA_LOCAL.
	if !local.IsValid() {
		local = peer
	}
	if x.prefix = netip.PrefixFrom(local, bits); !x.prefix.IsValid() {
		return address{}, false, fmt.Errorf("address message: %v with a prefix of %d bits", local, bits)
	}
	return x, true, nil
}

// route is the content of one RTM_NEWROUTE message for a default route.
type route struct {
	family   kernel.Family
	metric   uint32
	source   netip.Addr // preferred source; invalid if there is none
	device   int        // index of the first next hop's device
	gateways []netip.Addr

	advertised bool // by a router, to the kernel
}

// decodeRoute decodes a default route of the main table. ok is false for any other route.
func decodeRoute(p []byte) (r route, ok bool, err error) {
	if len(p) < unix.SizeofRtMsg {
		return route{}, false, fmt.Errorf("route message of %d bytes", len(p))
	}
	r.family = kernel.Family(p[0])
	flags := binary.NativeEndian.Uint32(p[8:])
	switch {
	case r.family != kernel.IPv4 && r.family != kernel.IPv6,
		p[1] != 0,                  // length of the destination
		p[4] != unix.RT_TABLE_MAIN, // without strict checking the kernel lists all tables
		p[7] != unix.RTN_UNICAST,
		flags&unix.RTM_F_CLONED != 0:
		return route{}, false, nil
	}
	r.advertised = p[5] == unix.RTPROT_RA
	a := nl.ParseAttrs(p[unix.SizeofRtMsg:])
	for a.Next() && err == nil {
		switch a.Type() {
		case unix.RTA_PRIORITY:
			r.metric = a.U32()
		case unix.RTA_PREFSRC:
			r.source, err = ip(r.family, a.Bytes())
		case unix.RTA_OIF:
			r.device = int(int32(a.U32()))
		case unix.RTA_MULTIPATH:
			err = r.hops(a.Bytes())
		default:
			err = r.gateway(&a)
		}
	}
	if err == nil {
		err = a.Err()
	}
	return r, err == nil, err
}

// hops reads the struct rtnexthop list of a route with several next hops.
func (r *route) hops(p []byte) error {
	for len(p) > 0 {
		if len(p) < unix.SizeofRtNexthop {
			return fmt.Errorf("route message: %d bytes left over after a next hop", len(p))
		}
		n := int(binary.NativeEndian.Uint16(p))
		if n < unix.SizeofRtNexthop || n > len(p) {
			return fmt.Errorf("route message: next hop of %d bytes with %d left", n, len(p))
		}
		if r.device == 0 {
			r.device = int(int32(binary.NativeEndian.Uint32(p[4:])))
		}
		a := nl.ParseAttrs(p[unix.SizeofRtNexthop:n])
		for a.Next() {
			if err := r.gateway(&a); err != nil {
				return err
			}
		}
		if a.Err() != nil {
			return a.Err()
		}
		p = p[min((n+3)&^3, len(p)):]
	}
	return nil
}

// gateway reads the current attribute if it holds the address of a next hop. An IPv4 route may have
// an IPv6 next hop, in RTA_VIA after its family.
func (r *route) gateway(a *nl.Attrs) (err error) {
	var g netip.Addr
	switch a.Type() {
	case unix.RTA_GATEWAY:
		g, err = ip(r.family, a.Bytes())
	case unix.RTA_VIA:
		p := a.Bytes()
		if len(p) < 2 {
			return fmt.Errorf("route message: next hop's address of %d bytes", len(p))
		}
		g, err = ip(kernel.Family(binary.NativeEndian.Uint16(p)), p[2:])
	default:
		return nil
	}
	if err == nil && !g.IsUnspecified() {
		r.gateways = append(r.gateways, g)
	}
	return err
}

func ip(f kernel.Family, p []byte) (netip.Addr, error) {
	switch {
	case f == kernel.IPv4 && len(p) == 4:
		return netip.AddrFrom4([4]byte(p)), nil
	case f == kernel.IPv6 && len(p) == 16:
		return netip.AddrFrom16([16]byte(p)), nil
	}
	return netip.Addr{}, fmt.Errorf("address of %s in %d bytes", f, len(p))
}

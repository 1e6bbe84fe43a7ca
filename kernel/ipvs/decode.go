package ipvs

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	moby "github.com/moby/ipvs"
	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// service is a virtual server as read.
type service struct {
	kernel.Virtual
	family kernel.Family
	reals  int // number of real servers, from getsockopt only
}

// dest is a real server as read.
type dest struct {
	kernel.Real
	kernel.Conns
}

// names keeps one copy of each scheduler name. A table of thousands has a dozen.
type names map[string]string

func (n names) of(b []byte) string {
	if s, ok := n[string(b)]; ok {
		return s
	}
	s := string(b)
	n[s] = s
	return s
}

// normal returns a virtual server in the form used for comparisons. It drops the kernel's own flag.
// Without persistence the kernel keeps timeout and netmask of an earlier one. normal drops these:
// the timeout becomes 0, and the netmask that of a single client.
func normal(v kernel.Virtual) kernel.Virtual {
	v.Flags &^= flagHashed
	if v.Flags&kernel.FlagPersistent == 0 {
		v.Timeout, v.Netmask = 0, uint8(v.Key.Family().Bits())
	}
	return v
}

// nested returns the attributes inside the first attribute typ of a generic netlink message.
func nested(payload []byte, typ uint16) (nl.Attrs, error) {
	if len(payload) < unix.GENL_HDRLEN {
		return nl.Attrs{}, fmt.Errorf("ipvs message of %d bytes", len(payload))
	}
	a := nl.ParseAttrs(payload[unix.GENL_HDRLEN:])
	for a.Next() {
		if a.Type() == typ {
			return a.Nested(), nil
		}
	}
	if a.Err() != nil {
		return nl.Attrs{}, a.Err()
	}
	return nl.Attrs{}, fmt.Errorf("ipvs message without attribute %d", typ)
}

// decodeService decodes an IPVS_CMD_NEW_SERVICE message of a dump.
func decodeService(payload []byte, n names) (service, error) {
	a, err := nested(payload, attrService)
	if err != nil {
		return service{}, err
	}
	var (
		s    service
		addr []byte
		port uint16
		mark uint32
		mask []byte
	)
	for a.Next() {
		switch a.Type() {
		case svcFamily:
			s.family = kernel.Family(a.U16())
		case svcProtocol:
			s.Key.Proto = kernel.Proto(a.U16())
		case svcAddr:
			addr = a.Bytes()
		case svcPort:
			port = a.U16BE()
		case svcFWMark:
			mark = a.U32()
		case svcScheduler:
			s.Scheduler = n.of(cString(a.Bytes()))
		case svcFlags:
			if len(a.Bytes()) != 8 { // struct ip_vs_flags
				return service{}, fmt.Errorf("ipvs flags of %d bytes", len(a.Bytes()))
			}
			s.Flags = binary.NativeEndian.Uint32(a.Bytes())
		case svcTimeout:
			s.Timeout = a.U32()
		case svcNetmask:
			a.U32()
			mask = a.Bytes()
		}
	}
	if a.Err() != nil {
		return service{}, a.Err()
	}
	if mark != 0 {
		if s.family != kernel.IPv4 && s.family != kernel.IPv6 {
			return service{}, fmt.Errorf("firewall mark %d of %v", mark, s.family)
		}
		s.Key = kernel.MarkKey(s.family, mark)
	} else {
		ip, err := address(s.family, addr)
		if err != nil {
			return service{}, err
		}
		s.Key.Addr, s.Key.Port = ip, port
	}
	s.Netmask = netmask(s.family, mask)
	s.Virtual = normal(s.Virtual)
	return s, nil
}

// decodeDest decodes an IPVS_CMD_NEW_DEST message of a dump of v's real servers.
func decodeDest(payload []byte, v kernel.VirtualKey) (dest, error) {
	a, err := nested(payload, attrDest)
	if err != nil {
		return dest{}, err
	}
	var (
		d      dest
		family = v.Family() // kernels before 3.18 do not send it and have one family only
		addr   []byte
		port   uint16
		kind   uint8 // kernels before 5.3 send nothing about tunnels: IPIP
		flags  uint16
	)
	for a.Next() {
		switch a.Type() {
		case destFamily:
			family = kernel.Family(a.U16())
		case destAddr:
			addr = a.Bytes()
		case destPort:
			port = a.U16BE()
		case destForward:
			d.Forward = kernel.Forward(a.U32() & moby.ConnectionFlagFwdMask)
		case destTunnel:
			kind = a.U8()
		case destTunnelPort:
			d.TunnelPort = a.U16BE()
		case destTunnelFlags:
			flags = a.U16()
		case destWeight:
			d.Weight = a.U32()
		case destUpper:
			d.Upper = a.U32()
		case destLower:
			d.Lower = a.U32()
		case destActive:
			d.Active = a.U32()
		case destInact:
			d.Inactive = a.U32()
		case destPersist:
			d.Persist = a.U32()
		}
	}
	if a.Err() != nil {
		return dest{}, a.Err()
	}
	ip, err := address(family, addr)
	if err != nil {
		return dest{}, err
	}
	d.Key = kernel.RealKey{Virtual: v, Addr: netip.AddrPortFrom(ip, port)}
	if d.Forward == kernel.Tunnel {
		d.Tunnel = kernel.NewTunnelType(kind, uint8(flags))
	} else {
		d.TunnelPort = 0 // the kernel keeps that of an earlier tunnel
	}
	return d, nil
}

// address decodes the kernel's union of both families.
func address(f kernel.Family, p []byte) (netip.Addr, error) {
	switch {
	case f == kernel.IPv4 && len(p) >= 4:
		return netip.AddrFrom4([4]byte(p)), nil
	case f == kernel.IPv6 && len(p) >= 16:
		return netip.AddrFrom16([16]byte(p)), nil
	}
	return netip.Addr{}, fmt.Errorf("ipvs address of %v in %d bytes", f, len(p))
}

// netmask decodes a persistence netmask as a prefix length. p has 4 bytes, or none.
func netmask(f kernel.Family, p []byte) uint8 {
	switch {
	case len(p) != 4:
		return 0
	case f == kernel.IPv4:
		return prefixLength(binary.BigEndian.Uint32(p))
	}
	return uint8(binary.NativeEndian.Uint32(p))
}

// cString cuts p at its first NUL.
func cString(p []byte) []byte {
	for i, c := range p {
		if c == 0 {
			return p[:i]
		}
	}
	return p
}

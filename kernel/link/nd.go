package link

import (
	"encoding/binary"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

const (
	ip6Length = 40
	ndLength  = 24 // of a solicitation or an advertisement without options

	solicitation  = 135
	advertisement = 136

	targetMAC = 2 // option with the target's link-layer address

	overrides = 0x20 // flag of an advertisement: it replaces the cached entry
)

var allNodes = netip.MustParseAddr("ff02::1")

// solicited returns the multicast group that the owner of an address joins.
func solicited(a netip.Addr) netip.Addr {
	group, b := netip.MustParseAddr("ff02::1:ff00:0").As16(), a.As16()
	copy(group[13:], b[13:])
	return netip.AddrFrom16(group)
}

// multicastMAC returns the Ethernet address of a multicast group.
func multicastMAC(a netip.Addr) net.HardwareAddr {
	b := a.As16()
	return net.HardwareAddr{0x33, 0x33, b[12], b[13], b[14], b[15]}
}

// solicit returns a neighbour solicitation for duplicate address detection. Its source is the
// unspecified address (RFC 4862, 5.4.2).
func solicit(vip netip.Addr) []byte {
	return icmp6(netip.IPv6Unspecified(), solicited(vip), solicitation, 0, vip, nil)
}

// advertise returns an unsolicited neighbour advertisement (RFC 4861, 7.2.6).
func advertise(vip netip.Addr, own net.HardwareAddr) []byte {
	return icmp6(vip, allNodes, advertisement, overrides, vip, own)
}

// icmp6 returns an IPv6 packet of neighbour discovery. If mac is not nil, it goes into an option.
func icmp6(from, to netip.Addr, kind, flags byte, target netip.Addr, mac net.HardwareAddr) []byte {
	n := ndLength
	if mac != nil {
		n += 8
	}
	p := make([]byte, ip6Length+n)
	p[0] = 6 << 4
	binary.BigEndian.PutUint16(p[4:], uint16(n))
	p[6], p[7] = unix.IPPROTO_ICMPV6, 255
	copy(p[8:24], from.AsSlice())
	copy(p[24:40], to.AsSlice())
	m := p[ip6Length:]
	m[0], m[4] = kind, flags
	copy(m[8:24], target.AsSlice())
	if mac != nil {
		m[24], m[25] = targetMAC, 1
		copy(m[26:32], mac)
	}
	binary.BigEndian.PutUint16(m[2:], checksum6(p))
	return p
}

// checksum6 computes the checksum of an ICMPv6 packet whose checksum field is 0. If the field is
// set and right, the result is 0.
func checksum6(p []byte) uint16 {
	sum := uint32(len(p)-ip6Length) + unix.IPPROTO_ICMPV6
	for i := 8; i < len(p)&^1; i += 2 { // the addresses, then the message
		sum += uint32(binary.BigEndian.Uint16(p[i:]))
	}
	if len(p)%2 == 1 {
		sum += uint32(p[len(p)-1]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// readND decodes a neighbour discovery packet that came from a link-layer address. Hop limit 255
// proves that no router forwarded it.
func readND(p []byte, from net.HardwareAddr) (sighting, bool) {
	if len(p) < ip6Length+ndLength || p[0]>>4 != 6 || p[6] != unix.IPPROTO_ICMPV6 || p[7] != 255 {
		return sighting{}, false
	}
	m := p[ip6Length:]
	if n := int(binary.BigEndian.Uint16(p[4:])); n < ndLength || n > len(m) || checksum6(p[:ip6Length+n]) != 0 {
		return sighting{}, false
	} else {
		m = m[:n]
	}
	h := sighting{addr: netip.AddrFrom16([16]byte(m[8:24])), mac: from}
	switch m[0] {
	case advertisement:
		if len(m) >= ndLength+8 && m[24] == targetMAC && m[25] == 1 {
			h.mac = net.HardwareAddr(append([]byte(nil), m[26:32]...))
		}
		return h, true
	case solicitation:
		h.probe = true
		return h, netip.AddrFrom16([16]byte(p[8:24])).IsUnspecified()
	}
	return sighting{}, false
}

// onlyND returns a program that makes the kernel drop all IPv6 packets but neighbour discovery.
func onlyND() []unix.SockFilter {
	const (
		load8  = unix.BPF_LD | unix.BPF_B | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		result = unix.BPF_RET | unix.BPF_K
	)
	return []unix.SockFilter{
		0: {Code: load8, K: 6},
		1: {Code: equal, K: unix.IPPROTO_ICMPV6, Jf: 4},
		2: {Code: load8, K: ip6Length},
		3: {Code: equal, K: solicitation, Jt: 1},
		4: {Code: equal, K: advertisement, Jf: 1},
		5: {Code: result, K: 1<<32 - 1},
		6: {Code: result, K: 0},
	}
}

package probe

import (
	"encoding/binary"
	"net/netip"
)

// Flags of TCP, and its protocol number.
const (
	flagSYN, flagRST, flagACK = 2, 4, 16
	protocolTCP               = 6
)

// segment is a TCP segment without data.
type segment struct {
	from, to netip.AddrPort
	seq, ack uint32
	flags    byte
}

// Lengths of headers, in bytes. A SYN says the size of segments that it takes, as those of Linux do.
const (
	lengthIPv4, lengthIPv6, lengthTCP = 20, 40, 24
	lifetime                          = 64 // routers
)

// packet returns the segment in an IP packet.
func (s segment) packet() []byte {
	tcp := make([]byte, lengthTCP)
	binary.BigEndian.PutUint16(tcp, s.from.Port())
	binary.BigEndian.PutUint16(tcp[2:], s.to.Port())
	binary.BigEndian.PutUint32(tcp[4:], s.seq)
	binary.BigEndian.PutUint32(tcp[8:], s.ack)
	tcp[12], tcp[13] = lengthTCP/4<<4, s.flags
	binary.BigEndian.PutUint16(tcp[14:], 64240) // the window, Linux's first one
	copy(tcp[20:], []byte{2, 4, 1220 >> 8, 1220 & 0xff})
	from, to := s.from.Addr().AsSlice(), s.to.Addr().AsSlice()
	pseudo := append(append(append([]byte{}, from...), to...), 0, protocolTCP, 0, lengthTCP)
	binary.BigEndian.PutUint16(tcp[16:], checksum(append(pseudo, tcp...)))
	if s.to.Addr().Is6() {
		ip := make([]byte, 8, lengthIPv6+lengthTCP)
		ip[0], ip[5], ip[6], ip[7] = 6<<4, lengthTCP, protocolTCP, lifetime
		return append(append(append(ip, from...), to...), tcp...)
	}
	ip := make([]byte, 12, lengthIPv4+lengthTCP)
	// 0x40: do not fragment
	ip[0], ip[3], ip[6], ip[8], ip[9] = 4<<4|lengthIPv4/4, lengthIPv4+lengthTCP, 0x40, lifetime, protocolTCP
	ip = append(append(ip, from...), to...)
	binary.BigEndian.PutUint16(ip[10:], checksum(ip))
	return append(ip, tcp...)
}

// readSegment decodes the headers of a packet. ok is false for one without a TCP header where the filter looks for it.
func readSegment(p []byte) (s segment, ok bool) {
	var from, to netip.Addr
	header := lengthIPv6
	switch {
	case len(p) >= lengthIPv4 && p[0]>>4 == 4 && p[9] == protocolTCP:
		header = int(p[0]&15) * 4
		from, to = netip.AddrFrom4([4]byte(p[12:16])), netip.AddrFrom4([4]byte(p[16:20]))
	case len(p) >= lengthIPv6 && p[0]>>4 == 6 && p[6] == protocolTCP:
		from, to = netip.AddrFrom16([16]byte(p[8:24])), netip.AddrFrom16([16]byte(p[24:40]))
	default:
		return segment{}, false
	}
	if header < lengthIPv4 || len(p) < header+20 {
		return segment{}, false
	}
	tcp := p[header:]
	return segment{
		from:  netip.AddrPortFrom(from, binary.BigEndian.Uint16(tcp)),
		to:    netip.AddrPortFrom(to, binary.BigEndian.Uint16(tcp[2:])),
		seq:   binary.BigEndian.Uint32(tcp[4:]),
		ack:   binary.BigEndian.Uint32(tcp[8:]),
		flags: tcp[13],
	}, true
}

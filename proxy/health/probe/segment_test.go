package probe

import (
	"encoding/binary"
	"net/netip"
	"testing"
)

// A packet's checksums are those that a receiver computes, and it reads back as it was.
func TestSegment(t *testing.T) {
	for _, addrs := range [][2]string{{"10.0.0.1:40000", "198.51.100.80:80"}, {"[fd00::1]:40000", "[2001:db8::80]:443"}} {
		s := segment{netip.MustParseAddrPort(addrs[0]), netip.MustParseAddrPort(addrs[1]), 0xfffffffe, 7, flagSYN}
		p := s.packet()
		header := lengthIPv6
		pseudo := append([]byte{}, p[8:40]...)
		if s.to.Addr().Is4() {
			header = lengthIPv4
			pseudo = append([]byte{}, p[12:20]...)
			if sum := checksum(p[:header]); sum != 0 || int(binary.BigEndian.Uint16(p[2:])) != len(p) {
				t.Errorf("%s: checksum of the header leaves %#x", addrs[1], sum)
			}
		} else if int(binary.BigEndian.Uint16(p[4:])) != len(p)-header {
			t.Errorf("%s: length %d", addrs[1], binary.BigEndian.Uint16(p[4:]))
		}
		if sum := checksum(append(append(pseudo, 0, protocolTCP, 0, lengthTCP), p[header:]...)); sum != 0 {
			t.Errorf("%s: checksum leaves %#x", addrs[1], sum)
		}
		if got, ok := readSegment(p); !ok || got != s {
			t.Errorf("%+v read back as %+v, %v", s, got, ok)
		}
		for n := range p {
			if n < header+20 {
				if _, ok := readSegment(p[:n]); ok {
					t.Errorf("%s: a segment in %d bytes", addrs[1], n)
				}
			}
		}
	}
}

package link

import (
	"encoding/binary"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// sighting is what an ARP or neighbour discovery packet says about an address. Packets begin after
// the link header.
type sighting struct {
	addr netip.Addr
	mac  net.HardwareAddr
	// probe is true if the sender asks for the address in order to take it. Otherwise the sender
	// has it.
	probe bool
}

const arpLength = 28

// arp returns a request for an address from this link-layer address. With announce it says that the
// sender has the address (RFC 5227, 2.3). Otherwise it is a probe (2.1.1).
func arp(vip netip.Addr, own net.HardwareAddr, announce bool) []byte {
	p := make([]byte, arpLength)
	binary.BigEndian.PutUint16(p, unix.ARPHRD_ETHER)
	binary.BigEndian.PutUint16(p[2:], unix.ETH_P_IP)
	p[4], p[5], p[7] = 6, 4, 1 // address lengths, and the operation: a request
	copy(p[8:14], own)
	if announce {
		copy(p[14:18], vip.AsSlice())
	}
	copy(p[24:28], vip.AsSlice())
	return p
}

// readARP decodes an ARP packet. The sender of a request or a reply has the address it sends from.
func readARP(p []byte) (sighting, bool) {
	if len(p) < arpLength || binary.BigEndian.Uint16(p[2:]) != unix.ETH_P_IP || p[4] != 6 || p[5] != 4 {
		return sighting{}, false
	}
	mac := net.HardwareAddr(append([]byte(nil), p[8:14]...))
	if sender := netip.AddrFrom4([4]byte(p[14:18])); !sender.IsUnspecified() {
		return sighting{sender, mac, false}, true
	}
	return sighting{netip.AddrFrom4([4]byte(p[24:28])), mac, true}, binary.BigEndian.Uint16(p[6:]) == 1
}

var everybody = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

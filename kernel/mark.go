package kernel

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// FWMark is the protocol of a VirtualKey that selects packets by their firewall mark. IP headers never have
// this number, it is reserved. The mark is in the last four bytes of the address, and the port is 0. So such keys
// have a family and an order, and fit into a set of addresses and ports: the ownership set has mark 7
// as 0.0.0.7,255:0. No host has an address of 0.0.0.0/8, and a mark of IPv6 is one of ::/96.
const FWMark Proto = 255

// MarkKey is the key of the virtual server for packets of a family with a mark, which is not 0.
func MarkKey(f Family, mark uint32) VirtualKey {
	return VirtualKey{Addr: MarkAddr(f, mark), Proto: FWMark}
}

// MarkAddr is a mark in the form of an address: see FWMark.
func MarkAddr(f Family, mark uint32) netip.Addr {
	var p [16]byte
	binary.BigEndian.PutUint32(p[12:], mark)
	if f == IPv4 {
		return netip.AddrFrom4([4]byte(p[12:]))
	}
	return netip.AddrFrom16(p)
}

// Mark is the mark of a key that has one, and 0 for an address and port.
func (k VirtualKey) Mark() uint32 {
	if k.Proto != FWMark {
		return 0
	}
	p := k.Addr.As16()
	return binary.BigEndian.Uint32(p[12:])
}

// MarkRule is the rule of KUBE-IPVS-FILTER that lets the packets of a mark pass to their virtual server.
func MarkRule(k VirtualKey) string { return fmt.Sprintf("-m mark --mark %#x -j RETURN", k.Mark()) }

// IsMarkRule reports whether a rule of KUBE-IPVS-FILTER is that of a mark.
func IsMarkRule(rule string) bool { return strings.HasPrefix(rule, "-m mark --mark ") }

// markString is ipvsadm's: -f 7, with -6 behind it for IPv6.
func (k VirtualKey) markString() string {
	s := "-f " + strconv.FormatUint(uint64(k.Mark()), 10)
	if k.Family() == IPv6 {
		s += " -6"
	}
	return s
}

// parseMark reads what is behind -f: MARK, and -6 for IPv6.
func parseMark(f []string) (VirtualKey, []string, error) {
	mark, err := strconv.ParseUint(f[0], 10, 32)
	if err != nil || mark == 0 {
		return VirtualKey{}, nil, fmt.Errorf("firewall mark %q: want a number from 1 to 4294967295", f[0])
	}
	if len(f) > 1 && f[1] == "-6" {
		return MarkKey(IPv6, uint32(mark)), f[2:], nil
	}
	return MarkKey(IPv4, uint32(mark)), f[1:], nil
}

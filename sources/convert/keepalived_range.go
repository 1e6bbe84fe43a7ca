package convert

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// maxRange bounds the addresses and ports that one line of a group gives.
const maxRange = 256

// addrsAndPorts reads "10.0.0.1", "10.0.0.1-9" or "2001:db8::1-f" and "80" or "80-90".
func addrsAndPorts(hosts, ports string) ([]netip.AddrPort, error) {
	first, last, _ := strings.Cut(hosts, "-")
	if p, err := netip.ParsePrefix(hosts); err == nil {
		first, last = p.Masked().Addr().String(), lastOf(p).String()
	}
	a, err := netip.ParseAddr(first)
	if err != nil || a.Zone() != "" {
		return nil, errors.New("want an address")
	}
	if end, err := netip.ParseAddr(last); err == nil && end.Is4() == a.Is4() { // 192.0.2.250-192.0.3.10
		return longRange(a, end, ports)
	}
	hostCount, err := rangeOf(lastPart(a), last, map[bool]int{true: 10, false: 16}[a.Is4()])
	if err != nil {
		return nil, err
	}
	low, high, _ := strings.Cut(ports, "-")
	port := uint64(0)
	if low != "" {
		if port, err = strconv.ParseUint(low, 10, 16); err != nil {
			return nil, errors.New("want a number as the port")
		}
	}
	portCount, err := rangeOf(port, high, 10)
	if err != nil || port+uint64(portCount)-1 > 65535 {
		return nil, fmt.Errorf("want a range of ports, at most %d", maxRange)
	}
	var all []netip.AddrPort
	for range hostCount {
		for p := range portCount {
			all = append(all, netip.AddrPortFrom(a, uint16(port)+uint16(p)))
		}
		a = a.Next()
	}
	return all, nil
}

// lastPart is the number at the end of an address, where a range begins.
func lastPart(a netip.Addr) uint64 {
	b := a.AsSlice()
	if a.Is4() {
		return uint64(b[3])
	}
	return uint64(b[14])<<8 | uint64(b[15])
}

// rangeOf returns how many numbers there are from first to last, which may be "" for one.
func rangeOf(first uint64, last string, base int) (int, error) {
	if last == "" {
		return 1, nil
	}
	n, err := strconv.ParseUint(last, base, 16)
	if err != nil || n < first || n-first >= maxRange {
		return 0, fmt.Errorf("want a range from a smaller to a larger number, of at most %d", maxRange)
	}
	return int(n-first) + 1, nil
}

// longRange returns the addresses from one to another, each with the ports.
func longRange(first, last netip.Addr, ports string) ([]netip.AddrPort, error) {
	var all []netip.AddrPort
	for a := first; ; a = a.Next() {
		more, err := addrsAndPorts(a.String(), ports)
		if err != nil {
			return nil, err
		}
		if all = append(all, more...); a == last {
			return all, nil
		}
		if len(all) >= maxRange || !a.Next().IsValid() {
			return nil, fmt.Errorf("%s-%s: want a range from a smaller to a larger address, of at most %d", first, last,
				maxRange)
		}
	}
}

// lastOf is the last address of a network.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

package traffic

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// tunnelBytes is by how much a method makes a packet longer.
func tunnelBytes(method string, vip netip.Addr) int {
	v4, v6 := 0, 0
	switch method {
	case "ipip":
		v4, v6 = 20, 40
	case "gue": // and a header of UDP, and of GUE
		v4, v6 = 20+8+4, 40+8+4
	}
	if vip.Is4() {
		return v4
	}
	return v6
}

func uint16At(p []byte, i int) int { return int(p[i])<<8 | int(p[i+1]) }

// ipHeader reads the destination, the next protocol and the length of an IP packet's header.
func ipHeader(p []byte) (to netip.Addr, proto byte, header, total int) {
	switch {
	case len(p) >= 20 && p[0]>>4 == 4:
		to, _ = netip.AddrFromSlice(p[16:20])
		return to, p[9], int(p[0]&15) * 4, uint16At(p, 2)
	case len(p) >= 40 && p[0]>>4 == 6:
		to, _ = netip.AddrFromSlice(p[24:40])
		return to, p[6], 40, 40 + uint16At(p, 4)
	}
	return netip.Addr{}, 0, 0, 0
}

// methodOnWire is how a packet that a backend got was forwarded, and to which VIP: "" if it was not.
func methodOnWire(p []byte) (method string, vip netip.Addr) {
	to, proto, header, total := ipHeader(p)
	if slices.Contains(forwardVIPs, to) {
		return "direct", to
	}
	method = map[byte]string{unix.IPPROTO_IPIP: "ipip", unix.IPPROTO_IPV6: "ipip", unix.IPPROTO_UDP: "gue"}[proto]
	if method == "gue" && (len(p) < header+8 || uint16At(p, header+2) != 6081) || method == "" {
		return "", vip
	}
	if method == "gue" { // who unwraps has changed the length of the IP packet, which the capture shares
		total = header + uint16At(p, header+4)
	}
	if extra := tunnelBytes(method, to); len(p) > extra {
		if inner, _, _, length := ipHeader(p[extra:]); slices.Contains(forwardVIPs, inner) && total == extra+length {
			return method, inner
		}
	}
	return "", vip
}

// wantWrapped wants packets of both families that are forwarded by a method, among those that a backend got.
func wantWrapped(t *testing.T, method string, packets [][]byte) {
	t.Helper()
	seen := map[string]int{}
	for _, p := range packets {
		if how, vip := methodOnWire(p); how != "" {
			seen[fmt.Sprintf("%s %v", how, vip)]++
		}
	}
	for _, vip := range forwardVIPs {
		if n := seen[fmt.Sprintf("%s %v", method, vip)]; (n > 0) != (method != "masquerade") {
			t.Errorf("%s to %s: %d such packets on the wire, of %d: %v", method, vip, n, len(packets), seen)
		}
	}
}

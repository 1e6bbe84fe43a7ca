package manifest

import (
	"net/netip"
	"strings"
)

// parseAddr reads an address as kube-proxy does: leading zeros are ignored, and the numbers are decimal. The API server
// still has objects with such addresses, from when it accepted them (KEP-4858). clean is how they should be written; ""
// if they are.
func parseAddr(text string) (a netip.Addr, clean string, err error) {
	if a, err = netip.ParseAddr(text); err == nil {
		return a.Unmap(), "", nil
	}
	a, err = netip.ParseAddr(withoutZeros(text))
	return a.Unmap(), a.Unmap().String(), err
}

// parsePrefix is parseAddr for a CIDR.
func parsePrefix(text string) (p netip.Prefix, clean string, err error) {
	if p, err = netip.ParsePrefix(text); err == nil {
		return p.Masked(), "", nil
	}
	p, err = netip.ParsePrefix(withoutZeros(text))
	return p.Masked(), p.String(), err
}

// withoutZeros removes the leading zeros of each number, but the last digit.
func withoutZeros(text string) string {
	var b strings.Builder
	isDigit := func(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }
	begins := true
	for i := range len(text) {
		c := text[i]
		if begins && c == '0' && i+1 < len(text) && isDigit(text[i+1]) {
			continue
		}
		begins = !isDigit(c)
		b.WriteByte(c)
	}
	return b.String()
}

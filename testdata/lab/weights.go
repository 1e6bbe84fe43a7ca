package lab

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// A Real is a real server of a virtual server of IPv4.
type Real struct {
	Network       string // tcp, udp
	Virtual, Addr netip.AddrPort
}

// Weights reads the weights of all real servers of IPv4. It starts no program, so
// it can be asked many times a second.
func (h *Host) Weights() (weights map[Real]int, err error) {
	err = h.Do(func() error {
		text, err := os.ReadFile("/proc/thread-self/net/ip_vs")
		if err == nil {
			weights, err = parseWeights(string(text))
		}
		return err
	})
	return weights, err
}

// parseWeights reads lines like
//
//	TCP  0A600014:0050 rr
//	  -> 0A02010A:1B58      Masq    1      0          0
func parseWeights(text string) (map[Real]int, error) {
	weights := map[Real]int{}
	var network string
	var virtual netip.AddrPort
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		var err error
		switch {
		case len(f) > 2 && (f[0] == "TCP" || f[0] == "UDP"):
			network = strings.ToLower(f[0])
			virtual, err = hexAddr(f[1])
		case len(f) == 6 && f[0] == "->" && f[1] != "RemoteAddress:Port" && virtual.IsValid():
			var real netip.AddrPort
			if real, err = hexAddr(f[1]); err == nil && real.IsValid() {
				weights[Real{network, virtual, real}], err = strconv.Atoi(f[3])
			}
		}
		if err != nil {
			return nil, fmt.Errorf("ip_vs line %q: %w", line, err)
		}
	}
	return weights, nil
}

// hexAddr reads 0A600014:0050; it returns zero for an address of IPv6.
func hexAddr(s string) (netip.AddrPort, error) {
	if strings.HasPrefix(s, "[") {
		return netip.AddrPort{}, nil
	}
	addr, port, _ := strings.Cut(s, ":")
	a, err := hex.DecodeString(addr)
	if err != nil || len(a) != 4 {
		return netip.AddrPort{}, fmt.Errorf("%q is no address", s)
	}
	p, err := strconv.ParseUint(port, 16, 16)
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(a)), uint16(p)), err
}

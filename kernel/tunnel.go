package kernel

import (
	"fmt"
	"slices"
	"strconv"
)

// TunnelType is how packets to a real server are wrapped. The low four bits are
// IP_VS_CONN_F_TUNNEL_TYPE_* of linux/ip_vs.h, the high four IP_VS_TUNNEL_ENCAP_FLAG_*.
type TunnelType uint8

// The types of tunnels, and the flags of their checksums. svcproxy uses IPIP and GUE
// without flags.
const (
	IPIP TunnelType = 0
	GUE  TunnelType = 1 // IP in UDP; since Linux 5.3
	GRE  TunnelType = 2

	TunnelCsum    TunnelType = 0x10
	TunnelRemCsum TunnelType = 0x20

	tunnelKind TunnelType = 0x0f
)

// tunnelNames are ipvsadm's, by type without flags.
var tunnelNames = []string{IPIP: "ipip", GUE: "gue", GRE: "gre"}

// NewTunnelType returns the type of the two numbers that the kernel has for it.
func NewTunnelType(kind, flags uint8) TunnelType {
	return TunnelType(kind)&tunnelKind | TunnelType(flags)<<4
}

// Kind and Flags are the numbers of the kernel.
func (t TunnelType) Kind() uint8 { return uint8(t & tunnelKind) }

// Flags are those of the checksums.
func (t TunnelType) Flags() uint8 { return uint8(t >> 4) }

// tunnelOptions returns the options of ipvsadm, each with a space in front. There are
// none for IPIP without flags.
func (r Real) tunnelOptions() string {
	s := ""
	if k := r.Tunnel.Kind(); int(k) < len(tunnelNames) && k != 0 {
		s += " --tun-type " + tunnelNames[k]
	} else if k != 0 {
		s += fmt.Sprintf(" --tun-type %d", k)
	}
	if r.TunnelPort != 0 {
		s += fmt.Sprintf(" --tun-port %d", r.TunnelPort)
	}
	if r.Tunnel&TunnelCsum != 0 {
		s += " --tun-csum"
	}
	if r.Tunnel&TunnelRemCsum != 0 {
		s += " --tun-remcsum"
	}
	return s
}

// tunnelOption sets the option of a tunnel at the start of f and returns how many words
// it took.
func (r *Real) tunnelOption(f []string) (int, error) {
	switch f[0] {
	case "--tun-nocsum":
		return 1, nil
	case "--tun-csum":
		r.Tunnel |= TunnelCsum
		return 1, nil
	case "--tun-remcsum":
		r.Tunnel |= TunnelRemCsum
		return 1, nil
	}
	if len(f) < 2 {
		return 0, fmt.Errorf("%s has no value", f[0])
	}
	switch f[0] {
	case "--tun-type":
		k, err := parseTunnelKind(f[1])
		r.Tunnel = r.Tunnel&^tunnelKind | k
		return 2, err
	case "--tun-port":
		n, err := strconv.ParseUint(f[1], 10, 16)
		if err != nil {
			return 0, fmt.Errorf("tunnel port %q: not a port", f[1])
		}
		r.TunnelPort = uint16(n)
		return 2, nil
	}
	return 0, fmt.Errorf("unknown option %q", f[0])
}

func parseTunnelKind(s string) (TunnelType, error) {
	if i := slices.Index(tunnelNames, s); i >= 0 {
		return TunnelType(i), nil
	}
	n, err := strconv.ParseUint(s, 10, 4)
	if err != nil {
		return 0, fmt.Errorf("tunnel type %q: want ipip, gue or gre", s)
	}
	return TunnelType(n), nil
}

package kernel

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Forward is how packets reach a real server: IP_VS_CONN_F_* of linux/ip_vs.h.
type Forward uint8

// The forwarding methods. svcproxy uses all but LocalNode, which is the kernel's own.
const (
	Masquerade Forward = 0
	LocalNode  Forward = 1
	Tunnel     Forward = 2
	Direct     Forward = 3
)

// forwardFlags are ipvsadm's letters by Forward; it has none for LocalNode.
var forwardFlags = [...]string{Masquerade: "-m", LocalNode: "-l", Tunnel: "-i", Direct: "-g"}

// RealKey identifies a real server.
type RealKey struct {
	Virtual VirtualKey
	Addr    netip.AddrPort
}

// Compare orders by virtual server, then address and port.
func (k RealKey) Compare(o RealKey) int {
	if c := CompareKeys(&k.Virtual, &o.Virtual); c != 0 {
		return c
	}
	return k.Addr.Compare(o.Addr)
}

// Same reports whether two keys are equal. It is faster than ==, see Real.Same.
func (k *RealKey) Same(o *RealKey) bool {
	return k.Addr.Addr() == o.Addr.Addr() && k.Addr.Port() == o.Addr.Port() && k.Virtual.Same(&o.Virtual)
}

// CompareRealKeys is RealKey.Compare, faster where both are equal.
func CompareRealKeys(a, b *RealKey) int {
	if a.Same(b) {
		return 0
	}
	return a.Compare(*b)
}

// String is ipvsadm's: -t 10.96.0.20:80 -r 10.2.1.10:8080.
func (k RealKey) String() string { return k.Virtual.String() + " -r " + k.Addr.String() }

// Real is an IPVS real server. Weight 0 takes no new connections.
type Real struct {
	Key     RealKey
	Weight  uint32
	Forward Forward
	// Tunnel and TunnelPort say how packets are wrapped with Forward Tunnel; else they are 0.
	// TunnelPort is the UDP port of GUE.
	Tunnel     TunnelType
	TunnelPort uint16
	// Upper is the number of connections, active and inactive, at which it gets no new ones; 0 = no limit. It gets
	// new ones again below Lower, or below three quarters of Upper if Lower is 0. A larger Upper changes nothing before
	// that: measured on Debian's Linux 6.1.
	Upper, Lower uint32
}

// realList is the List of real servers.
type realList struct{ sharedList[Real, Reals] }

var reals = realList{sharedList[Real, Reals]{
	list: list[Real]{
		get:     func(s State) []Real { return s.Reals.Slice() },
		set:     func(s *State, all []Real) { s.Reals = RealsOf(all) },
		compare: Real.Compare,
		same:    (*Real).Same,
	},
	value:  func(s State) Reals { return s.Reals },
	put:    func(s *State, l Reals) { s.Reals = l },
	sorted: Reals.ascending,
}}

func (realList) Find(s State, o Object) Object {
	own := s.Reals.Of(o.(Real).Key.Virtual)
	if i, found := findReal(own, o.(Real).Key); found {
		return own[i]
	}
	return nil
}

// Kind is KindReal.
func (Real) Kind() Kind { return KindReal }

// Compare orders by key.
func (r Real) Compare(o Real) int { return r.Key.Compare(o.Key) }

// Same reports whether two real servers are equal. Diff does little else, and == would
// take four times as long: Go calls a function for each nested struct with padding.
func (r *Real) Same(o *Real) bool {
	return r.Weight == o.Weight && r.Upper == o.Upper && r.Lower == o.Lower && r.Forward == o.Forward &&
		r.Tunnel == o.Tunnel && r.TunnelPort == o.TunnelPort && r.Key.Same(&o.Key)
}

// String is the ipvsadm-save form, with the options of ipvsadm for thresholds, which ipvsadm-save does not print.
func (r Real) String() string {
	return fmt.Sprintf("-a %s %s -w %d%s%s", r.Key, forwardFlags[r.Forward&3], r.Weight, r.thresholdOptions(),
		r.tunnelOptions())
}

// thresholdOptions returns -x and -y, each with a space in front, where they are not 0.
func (r Real) thresholdOptions() string {
	s := ""
	if r.Upper != 0 {
		s += fmt.Sprintf(" -x %d", r.Upper)
	}
	if r.Lower != 0 {
		s += fmt.Sprintf(" -y %d", r.Lower)
	}
	return s
}

func (r Real) command(v Verb, _ Object) string {
	switch v {
	case Change:
		return "-e" + strings.TrimPrefix(r.String(), "-a")
	case Remove:
		return "-d " + r.Key.String()
	}
	return r.String()
}

func parseRealKey(f []string) (RealKey, []string, error) {
	v, f, err := parseVirtualKey(f)
	if err != nil {
		return RealKey{}, nil, err
	}
	if len(f) < 2 || f[0] != "-r" {
		return RealKey{}, nil, fmt.Errorf("real server of %s: want -r ADDRESS:PORT", v)
	}
	a, err := parseAddrPort(f[1])
	return RealKey{Virtual: v, Addr: a}, f[2:], err
}

// real reads a line of ipvsadm-save, with or without a comment that has the
// connections.
func (p *parser) real(f []string) error {
	k, f, err := parseRealKey(f[1:])
	if err != nil {
		return err
	}
	r := Real{Key: k, Weight: 1}
	var c Conns
	for len(f) > 0 && f[0] != "#" {
		n, err := r.option(f)
		if err != nil {
			return fmt.Errorf("real server %s: %w", k, err)
		}
		f = f[n:]
	}
	if len(f) == 7 {
		if _, err := fmt.Sscanf(strings.Join(f, " "), "# active %d inactive %d persist %d", &c.Active, &c.Inactive,
			&c.Persist); err != nil {
			return fmt.Errorf("real server %s: connections: %w", k, err)
		}
	}
	p.reals = append(p.reals, r)
	p.o.Conns = append(p.o.Conns, c)
	return nil
}

// option sets the option at the start of f and returns how many words it took.
func (r *Real) option(f []string) (int, error) {
	for forward, flag := range forwardFlags {
		if f[0] == flag {
			r.Forward = Forward(forward)
			return 1, nil
		}
	}
	if strings.HasPrefix(f[0], "--tun-") {
		return r.tunnelOption(f)
	}
	number, what := map[string]*uint32{"-w": &r.Weight, "-x": &r.Upper, "-y": &r.Lower}[f[0]], realNumbers[f[0]]
	if number == nil || len(f) < 2 {
		return 0, fmt.Errorf("unknown option %q", f[0])
	}
	n, err := strconv.ParseUint(f[1], 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%s %q: not a number", what, f[1])
	}
	*number = uint32(n)
	return 2, nil
}

// realNumbers are the options of a real server that have a number.
var realNumbers = map[string]string{"-w": "weight", "-x": "upper threshold", "-y": "lower threshold"}

package kernel

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// parseVirtualKey reads "-t ADDRESS:PORT" at the start of f and gives the rest.
func parseVirtualKey(f []string) (VirtualKey, []string, error) {
	if len(f) < 2 {
		return VirtualKey{}, nil, fmt.Errorf("want -t, -u or --sctp-service and ADDRESS:PORT")
	}
	var k VirtualKey
	switch f[0] {
	case "-t":
		k.Proto = TCP
	case "-u":
		k.Proto = UDP
	case "--sctp-service":
		k.Proto = SCTP
	default:
		return k, nil, fmt.Errorf("%q: want -t, -u or --sctp-service", f[0])
	}
	var err error
	k.Addr, err = parseAddrPort(f[1])
	return k, f[2:], err
}

func parseAddrPort(s string) (netip.AddrPort, error) {
	a, err := netip.ParseAddrPort(s)
	if err == nil && a.Addr().Zone() != "" {
		err = fmt.Errorf("%q: an address with a zone", s)
	}
	return a, err
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

// timeouts reads: --set TCP TCPFIN UDP.
func (p *parser) timeouts(f []string) error {
	if len(f) != 4 {
		return fmt.Errorf("want: --set TCP TCPFIN UDP")
	}
	t := &p.o.Timeouts
	for i, to := range []*uint32{&t.TCP, &t.TCPFin, &t.UDP} {
		n, err := strconv.ParseUint(f[i+1], 10, 31)
		if err != nil {
			return fmt.Errorf("timeout %q: want seconds", f[i+1])
		}
		*to = uint32(n)
	}
	return nil
}

func (p *parser) virtual(f []string) error {
	k, f, err := parseVirtualKey(f[1:])
	if err != nil {
		return err
	}
	v := Virtual{Key: k, Netmask: uint8(k.Family().Bits())}
	for ; len(f) > 0; f = f[1:] {
		if f[0] == "-o" {
			v.Flags |= FlagOnePacket
			continue
		}
		if len(f) < 2 {
			return fmt.Errorf("virtual server %s: %s has no value", k, f[0])
		}
		if err := v.option(f[0], f[1]); err != nil {
			return fmt.Errorf("virtual server %s: %w", k, err)
		}
		f = f[1:]
	}
	if v.Scheduler == "" {
		return fmt.Errorf("virtual server %s: want a scheduler, -s NAME", k)
	}
	p.o.Virtuals = append(p.o.Virtuals, v)
	return nil
}

// option sets one of ipvsadm's options that have a value.
func (v *Virtual) option(name, value string) error {
	switch name {
	case "-s":
		v.Scheduler = value
	case "-p":
		n, err := strconv.ParseUint(value, 10, 32)
		if err != nil {
			return fmt.Errorf("timeout %q: want seconds", value)
		}
		v.Flags |= FlagPersistent
		v.Timeout = uint32(n)
	case "-M":
		n, ok := parseNetmask(value, v.Key.Family())
		if !ok {
			return fmt.Errorf("netmask %q: want a prefix length, or a mask of IPv4", value)
		}
		v.Netmask = n
	case "-b":
		for flag := range strings.SplitSeq(value, ",") {
			bit, ok := schedFlag[flag]
			if !ok {
				return fmt.Errorf("scheduler flag %q: want flag-1 to flag-3, or sh-port and its kin", flag)
			}
			v.Flags |= bit
		}
	case "--pe": // no reading has it, and ours have none
	default:
		return fmt.Errorf("unknown option %q", name)
	}
	return nil
}

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
		if _, err := fmt.Sscanf(strings.Join(f, " "), "# active %d inactive %d persist %d", &c.Active, &c.Inactive, &c.Persist); err != nil {
			return fmt.Errorf("real server %s: connections: %w", k, err)
		}
	}
	p.o.Reals = append(p.o.Reals, r)
	p.o.Conns = append(p.o.Conns, c)
	return nil
}

// option sets the option at the start of f and gives how many words it took.
func (r *Real) option(f []string) (int, error) {
	for forward, flag := range forwardFlags {
		if f[0] == flag {
			r.Forward = Forward(forward)
			return 1, nil
		}
	}
	if n := tunnelOptions[f[0]]; n > 0 && n <= len(f) {
		return n, nil
	}
	if f[0] != "-w" || len(f) < 2 {
		return 0, fmt.Errorf("unknown option %q", f[0])
	}
	w, err := strconv.ParseUint(f[1], 10, 31)
	if err != nil {
		return 0, fmt.Errorf("weight %q: not a number", f[1])
	}
	r.Weight = uint32(w)
	return 2, nil
}

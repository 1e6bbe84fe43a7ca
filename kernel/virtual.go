package kernel

import (
	"cmp"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// VirtualKey identifies a virtual server, by address and port, or by a firewall mark: see FWMark.
//
// Address and port are fields, since a netip.AddrPort leaves six bytes unused: each real server would take 88
// bytes instead of 80, and each op on one the next size of an allocation.
type VirtualKey struct {
	Addr  netip.Addr
	Port  uint16
	Proto Proto
}

// VirtualAt is the key of the virtual server at an address and port.
func VirtualAt(at netip.AddrPort, p Proto) VirtualKey {
	return VirtualKey{Addr: at.Addr(), Port: at.Port(), Proto: p}
}

// AddrPort is the address and port that clients use.
func (k VirtualKey) AddrPort() netip.AddrPort { return netip.AddrPortFrom(k.Addr, k.Port) }

// Family of the virtual server's address.
func (k VirtualKey) Family() Family { return FamilyOf(k.Addr) }

// Compare orders by address, protocol and port: the order of entries in a set, so
// that virtual servers and the ownership set can be walked side by side.
func (k VirtualKey) Compare(o VirtualKey) int {
	if c := k.Addr.Compare(o.Addr); c != 0 {
		return c
	}
	if c := cmp.Compare(k.Proto, o.Proto); c != 0 {
		return c
	}
	return cmp.Compare(k.Port, o.Port)
}

// Same reports whether two keys are equal. It is faster than ==, see Real.Same.
func (k *VirtualKey) Same(o *VirtualKey) bool {
	return k.Proto == o.Proto && k.Addr == o.Addr && k.Port == o.Port
}

// CompareKeys is VirtualKey.Compare, faster where both are equal.
func CompareKeys(a, b *VirtualKey) int {
	if a.Same(b) {
		return 0
	}
	return a.Compare(*b)
}

// String is ipvsadm's: -t 10.96.0.20:80.
func (k VirtualKey) String() string { return string(k.append(nil)) }

func (k VirtualKey) append(text []byte) []byte {
	flag := "-t "
	switch k.Proto {
	case FWMark:
		return append(text, k.markString()...)
	case UDP:
		flag = "-u "
	case SCTP:
		flag = "--sctp-service "
	}
	return k.AddrPort().AppendTo(append(text, flag...))
}

// Flags of a virtual server: IP_VS_SVC_F_* of linux/ip_vs.h, without HASHED,
// which only the kernel sets.
const (
	FlagPersistent uint32 = 0x1
	FlagOnePacket  uint32 = 0x4
	FlagSched1     uint32 = 0x8  // sh-fallback, mh-fallback
	FlagSched2     uint32 = 0x10 // sh-port, mh-port
	FlagSched3     uint32 = 0x20
)

var schedFlags = [...]uint32{FlagSched1, FlagSched2, FlagSched3}

// schedFlag has the words of ipvsadm, which names some flags after their scheduler.
var schedFlag = map[string]uint32{
	"flag-1": FlagSched1, "flag-2": FlagSched2, "flag-3": FlagSched3,
	"sh-fallback": FlagSched1, "sh-port": FlagSched2,
	"mh-fallback": FlagSched1, "mh-port": FlagSched2,
}

// Virtual is an IPVS virtual server. Timeout is in seconds and Netmask is a
// prefix length; both matter only with FlagPersistent.
type Virtual struct {
	Key       VirtualKey
	Scheduler string
	Flags     uint32
	Timeout   uint32
	Netmask   uint8
}

var virtuals = list[Virtual]{
	get:     func(s State) []Virtual { return s.Virtuals },
	set:     func(s *State, all []Virtual) { s.Virtuals = all },
	compare: Virtual.Compare,
	read:    parseVirtual,
}

// Kind is KindVirtual.
func (Virtual) Kind() Kind { return KindVirtual }

// Compare orders by key.
func (v Virtual) Compare(o Virtual) int { return v.Key.Compare(o.Key) }

// FindVirtual returns the place of a virtual server in a sorted list, and whether it is there.
func FindVirtual(sorted []Virtual, k VirtualKey) (at int, found bool) {
	return slices.BinarySearchFunc(sorted, k, func(v Virtual, k VirtualKey) int { return v.Key.Compare(k) })
}

// String is the ipvsadm-save form.
func (v Virtual) String() string { return string(v.append(nil)) }

func (v *Virtual) append(text []byte) []byte {
	text = append(append(v.Key.append(append(text, "-A "...)), " -s "...), v.Scheduler...)
	if v.Flags&FlagPersistent != 0 {
		text = strconv.AppendUint(append(text, " -p "...), uint64(v.Timeout), 10)
	}
	if int(v.Netmask) != v.Key.Family().Bits() {
		text = strconv.AppendUint(append(text, " -M "...), uint64(v.Netmask), 10)
	}
	if v.Flags&FlagOnePacket != 0 {
		text = append(text, " -o"...)
	}
	before := " -b flag-"
	for i, f := range schedFlags {
		if v.Flags&f != 0 {
			text = strconv.AppendInt(append(text, before...), int64(i+1), 10)
			before = ",flag-"
		}
	}
	return text
}

func (v Virtual) command(verb Verb, _ Object) string {
	switch verb {
	case Change:
		return "-E" + strings.TrimPrefix(v.String(), "-A")
	case Remove:
		return "-D " + v.Key.String()
	}
	return v.String()
}

// appendVirtuals writes each virtual server, and its real servers behind it.
func appendVirtuals(b *strings.Builder, o *Observed) {
	reals, r := o.Reals.Slice(), 0
	for _, v := range o.Virtuals {
		b.WriteString(v.String())
		b.WriteByte('\n')
		for ; r < len(reals) && reals[r].Key.Virtual.Compare(v.Key) <= 0; r++ {
			b.WriteString(reals[r].String())
			if r < len(o.Conns) && o.Conns[r] != (Conns{}) {
				fmt.Fprintf(b, " # active %d inactive %d persist %d", o.Conns[r].Active, o.Conns[r].Inactive, o.Conns[r].Persist)
			}
			b.WriteByte('\n')
		}
	}
}

// parseVirtualKey reads "-t ADDRESS:PORT" or "-f MARK" at the start of f and returns the rest.
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
	case "-f":
		return parseMark(f[1:])
	default:
		return k, nil, fmt.Errorf("%q: want -t, -u, --sctp-service or -f", f[0])
	}
	at, err := parseAddrPort(f[1])
	return VirtualAt(at, k.Proto), f[2:], err
}

func parseAddrPort(s string) (netip.AddrPort, error) {
	a, err := netip.ParseAddrPort(s)
	if err == nil && a.Addr().Zone() != "" {
		err = fmt.Errorf("%q: an address with a zone", s)
	}
	return a, err
}

// parseVirtual reads a line of ipvsadm-save: -A KEY and options.
func parseVirtual(f []string) (Virtual, error) {
	k, f, err := parseVirtualKey(f[1:])
	if err != nil {
		return Virtual{}, err
	}
	v := Virtual{Key: k, Netmask: uint8(k.Family().Bits())}
	for ; len(f) > 0; f = f[1:] {
		if f[0] == "-o" {
			v.Flags |= FlagOnePacket
			continue
		}
		if len(f) < 2 {
			return Virtual{}, fmt.Errorf("virtual server %s: %s has no value", k, f[0])
		}
		if err := v.option(f[0], f[1]); err != nil {
			return Virtual{}, fmt.Errorf("virtual server %s: %w", k, err)
		}
		f = f[1:]
	}
	if v.Scheduler == "" {
		return Virtual{}, fmt.Errorf("virtual server %s: want a scheduler, -s NAME", k)
	}
	return v, nil
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
	case "--pe": // persistence engine: readings do not have it, svcproxy uses none
	default:
		return fmt.Errorf("unknown option %q", name)
	}
	return nil
}

// parseNetmask reads a prefix length, or, as ipvsadm prints it for IPv4, a mask.
func parseNetmask(s string, f Family) (uint8, bool) {
	if n, err := strconv.ParseUint(s, 10, 8); err == nil {
		return uint8(n), int(n) <= f.Bits()
	}
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is4() || f != IPv4 {
		return 0, false
	}
	b := a.As4()
	mask := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	ones := bits.LeadingZeros32(^mask)
	return uint8(ones), mask<<ones == 0
}

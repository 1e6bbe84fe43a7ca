package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
)

// rule is a compiled rule.
type rule struct {
	exprs   []expr
	text    []string // in the grammar of nft, without the comment
	comment string
}

// compile returns the rule of nf_tables for one in the words of iptables. What the words mean stays the same, but for
// ACCEPT: it ends the way through our table, not through those of other programs.
//
// An error says which words it does not know.
func compile(n kernel.Names, f kernel.Family, table, words string) (rule, error) {
	c := compiler{names: n, family: f, table: table}
	if err := c.read(words); err != nil {
		return rule{}, fmt.Errorf("rule %q has no form in nftables: %w", words, err)
	}
	if !c.ended {
		c.count()
	}
	return c.rule, nil
}

// compiler reads the words of one rule.
type compiler struct {
	rule
	names  kernel.Names
	family kernel.Family
	table  string

	words  []kernel.Word
	invert bool
	proto  uint8 // that -p asked for
	ended  bool  // it has a target
}

var errEnds = errors.New("a word is missing at its end")

func (c *compiler) read(words string) (err error) {
	if c.words, err = kernel.Words(words); err != nil {
		return err
	}
	for len(c.words) > 0 && err == nil {
		word, _ := c.next()
		if word == "!" {
			c.invert = true
			if word, err = c.next(); err != nil {
				return err
			}
		}
		err = c.option(word)
		c.invert = false
	}
	return err
}

func (c *compiler) next() (string, error) {
	if len(c.words) == 0 {
		return "", errEnds
	}
	w := c.words[0].Text
	c.words = c.words[1:]
	return w, nil
}

// modules are the matches whose options have names of their own.
var modules = []string{"comment", "set", "conntrack", "mark", "addrtype", "icmp", "icmp6", "tcp", "udp", "sctp",
	"limit", "connlimit"}

func (c *compiler) option(name string) error {
	value, err := c.next()
	if err != nil {
		return err
	}
	switch name {
	case "-m":
		if !slices.Contains(modules, value) || c.invert {
			return fmt.Errorf("match %q", value)
		}
		return nil
	case "--comment":
		c.comment = value
		return nil
	case "-s", "-d":
		return c.address(name, value)
	case "-i":
		return c.link(unix.NFT_META_IIFNAME, "iifname", value)
	case "-o":
		return c.link(unix.NFT_META_OIFNAME, "oifname", value)
	case "-p":
		return c.protocol(value)
	case "--dport", "--sport":
		return c.port(name, value)
	case "--icmp-type", "--icmpv6-type":
		return c.icmp(value)
	case "--ctstate":
		return c.state(value)
	case "--mark":
		return c.mark(value)
	case "--src-type", "--dst-type":
		return c.addressType(name, value)
	case "--match-set":
		parts, err := c.next()
		if err != nil {
			return err
		}
		return c.set(value, parts)
	case "--limit-above":
		return c.rate(value)
	case "--connlimit-above":
		return c.connections(value)
	case "-j", "-g":
		if c.invert {
			return errors.New("an inverted target")
		}
		return c.target(name, value)
	}
	return fmt.Errorf("option %q", name)
}

func (c *compiler) add(name string, attrs ...attr) {
	c.exprs = append(c.exprs, expr{name, attrs})
}

func (c *compiler) say(format string, args ...any) {
	c.text = append(c.text, fmt.Sprintf(format, args...))
}

// not is the operator of nft in front of a value: none, or != for an inverted match.
func (c *compiler) not() string {
	if c.invert {
		return "!= "
	}
	return ""
}

// compare continues if a register has a value, or has not, for an inverted match.
func (c *compiler) compare(r uint32, value []byte) {
	op := uint32(unix.NFT_CMP_EQ)
	if c.invert {
		op = unix.NFT_CMP_NEQ
	}
	c.add("cmp", num(unix.NFTA_CMP_SREG, reg(r)), num(unix.NFTA_CMP_OP, op), data(unix.NFTA_CMP_DATA, value))
}

// mask replaces a register by r & mask ^ xor.
func (c *compiler) mask(r uint32, mask, xor []byte) {
	c.add("bitwise", num(unix.NFTA_BITWISE_SREG, reg(r)), num(unix.NFTA_BITWISE_DREG, reg(r)),
		num(unix.NFTA_BITWISE_LEN, uint32(len(mask))), data(unix.NFTA_BITWISE_MASK, mask),
		data(unix.NFTA_BITWISE_XOR, xor))
}

func (c *compiler) meta(r uint32, key uint32) {
	c.add("meta", num(unix.NFTA_META_DREG, reg(r)), num(unix.NFTA_META_KEY, key))
}

func (c *compiler) payload(r uint32, base, offset, size uint32) {
	c.add("payload", num(unix.NFTA_PAYLOAD_DREG, reg(r)), num(unix.NFTA_PAYLOAD_BASE, base),
		num(unix.NFTA_PAYLOAD_OFFSET, offset), num(unix.NFTA_PAYLOAD_LEN, size))
}

// ip is the protocol of the family in the grammar of nft.
func ip(f kernel.Family) string {
	if f == kernel.IPv6 {
		return "ip6"
	}
	return "ip"
}

// loadAddr loads the source or the destination into registers and returns how many they are, and nft's name for it.
func (c *compiler) loadAddr(r uint32, direction string) (registers uint32, name string) {
	offset := map[string]uint32{"ip src": 12, "ip dst": 16, "ip6 src": 8, "ip6 dst": 24}[ip(c.family)+" "+direction]
	size := uint32(c.family.Bits() / 8)
	c.payload(r, unix.NFT_PAYLOAD_NETWORK_HEADER, offset, size)
	return size / 4, fmt.Sprintf("%s %caddr", ip(c.family), direction[0])
}

// loadOriginal loads the destination that a connection was made to.
func (c *compiler) loadOriginal(r uint32) (registers uint32, name string) {
	key := map[kernel.Family]uint32{kernel.IPv4: unix.NFT_CT_DST_IP, kernel.IPv6: unix.NFT_CT_DST_IP6}[c.family]
	c.add("ct", num(unix.NFTA_CT_DREG, reg(r)), num(unix.NFTA_CT_KEY, key), octet(unix.NFTA_CT_DIRECTION, 0))
	return uint32(c.family.Bits() / 32), "ct original " + ip(c.family) + " daddr"
}

// loadPort loads the source or the destination port.
func (c *compiler) loadPort(r uint32, direction string) (name string) {
	offset := map[string]uint32{"src": 0, "dst": 2}[direction]
	c.payload(r, unix.NFT_PAYLOAD_TRANSPORT_HEADER, offset, 2)
	return fmt.Sprintf("th %cport", direction[0])
}

func (c *compiler) address(option, value string) error {
	p, err := netip.ParsePrefix(value)
	if err != nil {
		a, err := netip.ParseAddr(value)
		if err != nil {
			return fmt.Errorf("address %q", value)
		}
		p = netip.PrefixFrom(a, a.BitLen())
	}
	if kernel.FamilyOf(p.Addr()) != c.family {
		return fmt.Errorf("%s is not an address of %s", value, c.family)
	}
	_, name := c.loadAddr(0, map[string]string{"-s": "src", "-d": "dst"}[option])
	if !p.IsSingleIP() {
		c.mask(0, maskOf(p.Bits(), p.Addr().BitLen()), make([]byte, p.Addr().BitLen()/8))
	}
	c.compare(0, p.Masked().Addr().AsSlice())
	c.say("%s %s%s", name, c.not(), strings.TrimSuffix(p.Masked().String(), fmt.Sprintf("/%d", p.Addr().BitLen())))
	return nil
}

// maskOf returns the mask of a prefix.
func maskOf(bits, of int) []byte {
	m := make([]byte, of/8)
	for i := range bits {
		m[i/8] |= 0x80 >> (i % 8)
	}
	return m
}

// link matches the name of a device, or its beginning in front of a "+".
func (c *compiler) link(key uint32, option, name string) error {
	if len(strings.TrimSuffix(name, "+")) >= unix.IFNAMSIZ {
		return fmt.Errorf("device name %q", name)
	}
	value := make([]byte, unix.IFNAMSIZ)
	copy(value, name)
	text := strconv.Quote(name)
	if prefix, ok := strings.CutSuffix(name, "+"); ok {
		if value = []byte(prefix); prefix == "" {
			return fmt.Errorf("device name %q", name)
		}
		text = strconv.Quote(prefix + "*")
	}
	c.meta(0, key)
	c.compare(0, value)
	c.say("%s %s%s", option, c.not(), text)
	return nil
}

var protocols = map[string]uint8{
	"tcp": unix.IPPROTO_TCP, "udp": unix.IPPROTO_UDP, "sctp": unix.IPPROTO_SCTP, "icmp": unix.IPPROTO_ICMP,
	"ipv6-icmp": unix.IPPROTO_ICMPV6,
}

func (c *compiler) protocol(name string) error {
	proto, ok := protocols[name]
	if !ok {
		return fmt.Errorf("protocol %q", name)
	}
	c.meta(0, unix.NFT_META_L4PROTO)
	c.compare(0, []byte{proto})
	c.say("meta l4proto %s%s", c.not(), name)
	if !c.invert {
		c.proto = proto
	}
	return nil
}

func (c *compiler) port(option, value string) error {
	port, err := strconv.ParseUint(value, 10, 16)
	if err != nil || c.proto == 0 {
		return fmt.Errorf("port %q", value)
	}
	name := c.loadPort(0, map[string]string{"--sport": "src", "--dport": "dst"}[option])
	c.compare(0, binary.BigEndian.AppendUint16(nil, uint16(port)))
	c.say("%s %s%d", name, c.not(), port)
	return nil
}

func (c *compiler) icmp(value string) error {
	typ, err := strconv.ParseUint(value, 10, 8)
	if err != nil || c.proto != protocols["icmp"] && c.proto != protocols["ipv6-icmp"] {
		return fmt.Errorf("type of ICMP %q", value)
	}
	name := "icmp"
	if c.proto == protocols["ipv6-icmp"] {
		name = "icmpv6"
	}
	c.payload(0, unix.NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1)
	c.compare(0, []byte{uint8(typ)})
	c.say("%s type %s%d", name, c.not(), typ)
	return nil
}

// states are the bits of NFT_CT_STATE (linux/netfilter/nf_conntrack_common.h).
var states = map[string]uint32{"INVALID": 1, "ESTABLISHED": 2, "RELATED": 4, "NEW": 8, "UNTRACKED": 64}

// translated is IPS_DST_NAT (linux/netfilter/nf_conntrack_common.h).
const translated = 1 << 5

func (c *compiler) state(list string) error {
	if list == "DNAT" {
		c.connection(unix.NFT_CT_STATUS, translated)
		c.say("ct status %sdnat", c.not())
		return nil
	}
	var bits uint32
	for name := range strings.SplitSeq(list, ",") {
		bit, ok := states[name]
		if !ok {
			return fmt.Errorf("state %q", name)
		}
		bits |= bit
	}
	c.connection(unix.NFT_CT_STATE, bits)
	c.say("ct state %s%s", c.not(), strings.ToLower(list))
	return nil
}

// connection looks for any of some bits of what connection tracking knows.
func (c *compiler) connection(key, bits uint32) {
	c.add("ct", num(unix.NFTA_CT_DREG, reg(0)), num(unix.NFTA_CT_KEY, key))
	none := make([]byte, 4)
	c.mask(0, native(bits), none)
	c.invert = !c.invert // any of the bits is a result other than 0
	c.compare(0, none)
	c.invert = !c.invert
}

func native(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// masked reads VALUE/MASK, or VALUE.
func masked(s string) (value, mask uint32, err error) {
	v, m, has := strings.Cut(s, "/")
	value64, err := strconv.ParseUint(v, 0, 32)
	mask64 := uint64(1<<32 - 1)
	if has && err == nil {
		mask64, err = strconv.ParseUint(m, 0, 32)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("mark %q", s)
	}
	return uint32(value64), uint32(mask64), nil
}

func (c *compiler) mark(s string) error {
	value, mask, err := masked(s)
	if err != nil {
		return err
	}
	c.meta(0, unix.NFT_META_MARK)
	if mask != 1<<32-1 {
		c.mask(0, native(mask), make([]byte, 4))
		c.say("meta mark and %#x", mask)
	} else {
		c.say("meta mark")
	}
	c.compare(0, native(value))
	c.say("%s%#x", c.not(), value)
	return nil
}

// addressType asks the routing tables whether an address is the node's.
func (c *compiler) addressType(option, value string) error {
	types := map[string]uint32{"LOCAL": unix.RTN_LOCAL, "UNICAST": unix.RTN_UNICAST, "BROADCAST": unix.RTN_BROADCAST,
		"MULTICAST": unix.RTN_MULTICAST}
	typ, ok := types[value]
	if !ok {
		return fmt.Errorf("type of address %q", value)
	}
	flag, name := uint32(unix.NFTA_FIB_F_DADDR), "daddr"
	if option == "--src-type" {
		flag, name = unix.NFTA_FIB_F_SADDR, "saddr"
	}
	c.add("fib", num(unix.NFTA_FIB_DREG, reg(0)), num(unix.NFTA_FIB_RESULT, unix.NFT_FIB_RESULT_ADDRTYPE),
		num(unix.NFTA_FIB_FLAGS, flag))
	c.compare(0, native(typ))
	c.say("fib %s type %s%s", name, c.not(), strings.ToLower(value))
	return nil
}

// set looks parts of the packet up in a set.
func (c *compiler) set(name, directions string) error {
	shape, err := c.shape(name)
	if err != nil {
		return err
	}
	key, _, err := c.key(shape.fields, directions)
	if err != nil {
		return fmt.Errorf("set %s: %w", name, err)
	}
	if shape.meter {
		key = c.client(key)
	}
	lookup := []attr{text(unix.NFTA_LOOKUP_SET, name), num(unix.NFTA_LOOKUP_SREG, reg(0))}
	if c.invert {
		lookup = append(lookup, num(unix.NFTA_LOOKUP_FLAGS, unix.NFT_LOOKUP_F_INV))
	}
	c.add("lookup", lookup...)
	c.say("%s %s@%s", key, c.not(), name)
	return nil
}

// shape returns what a set of ours is.
func (c *compiler) shape(set string) (shape, error) {
	family, spec, ok := c.names.SetSpec(set)
	if !ok || family != c.family {
		return shape{}, fmt.Errorf("set %s is not ours", set)
	}
	return shapes[spec.Type], nil
}

// key loads the parts of a packet that a set has, from the first register on: addresses and ports from the directions
// given, which do not name the protocol. "origdst" is what an address was before it was translated. A slot is loaded by
// its target. next is the register behind them.
func (c *compiler) key(fields []field, directions string) (names string, next uint32, err error) {
	rest := strings.Split(directions, ",")
	var all []string
	for _, f := range fields {
		switch f {
		case protoField:
			c.meta(next, unix.NFT_META_L4PROTO)
			all = append(all, "meta l4proto")
			next++
			continue
		case slotField:
			continue
		}
		switch {
		case len(rest) > 0 && rest[0] == "origdst" && f == addrField:
			n, name := c.loadOriginal(next)
			all = append(all, name)
			next += n
		case len(rest) == 0 || rest[0] != "src" && rest[0] != "dst":
			return "", 0, fmt.Errorf("directions %q", directions)
		case f == portField:
			all = append(all, c.loadPort(next, rest[0]))
			next++
		default:
			n, name := c.loadAddr(next, rest[0])
			all = append(all, name)
			next += n
		}
		rest = rest[1:]
	}
	if len(rest) > 0 {
		return "", 0, fmt.Errorf("directions %q", directions)
	}
	return strings.Join(all, " . "), next, nil
}

package nft

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
)

// verdict ends a rule with a verdict, and the chain to go on in.
func (c *compiler) verdict(code int32, chain string) {
	in := []attr{num(unix.NFTA_VERDICT_CODE, uint32(code))}
	if chain != "" {
		in = append(in, text(unix.NFTA_VERDICT_CHAIN, chain))
	}
	c.add("immediate", num(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT),
		nest(unix.NFTA_IMMEDIATE_DATA, nest(unix.NFTA_DATA_VERDICT, in...)))
}

// Verdicts of linux/netfilter.h. Those of nf_tables are in package unix.
const (
	drop   = 0
	accept = 1
)

// Flags of linux/netfilter/nf_nat.h.
const (
	mapIPs         = 1 << 0 // NF_NAT_RANGE_MAP_IPS
	protoSpecified = 1 << 1 // NF_NAT_RANGE_PROTO_SPECIFIED
	randomFully    = 1 << 4 // NF_NAT_RANGE_PROTO_RANDOM_FULLY
)

// target reads what is behind -j and -g.
func (c *compiler) target(option, name string) error {
	if c.ended = true; name != "VMAP" {
		c.count()
	}
	switch name {
	case "ACCEPT":
		c.verdict(accept, "")
		c.say("accept")
	case "DROP":
		c.verdict(drop, "")
		c.say("drop")
	case "RETURN":
		c.verdict(unix.NFT_RETURN, "")
		c.say("return")
	case "REJECT":
		return c.reject()
	case "MASQUERADE":
		return c.masquerade()
	case "MARK":
		return c.setMark()
	case "DNAT":
		return c.destination()
	case "FLOWOFFLOAD":
		c.add("flow_offload", text(flowName, flowtable))
		c.say("flow add @%s", flowtable)
	case "VMAP":
		return c.verdictMap()
	default:
		if !c.names.OwnsChain(c.table, name) {
			return fmt.Errorf("target %q", name)
		}
		code, word := int32(unix.NFT_JUMP), "jump"
		if option == "-g" {
			code, word = unix.NFT_GOTO, "goto"
		}
		chain := chainName(c.table, name)
		c.verdict(code, chain)
		c.say("%s %s", word, chain)
	}
	if len(c.words) > 0 {
		return fmt.Errorf("words behind target %q", name)
	}
	return nil
}

// flag reads the rest of the rule, which is an option of the target, or nothing.
func (c *compiler) flag(name string) (bool, error) {
	if len(c.words) == 0 {
		return false, nil
	}
	if word, _ := c.next(); word != name || len(c.words) > 0 {
		return false, fmt.Errorf("option %q of a target", word)
	}
	return true, nil
}

// value reads an option of the target that has a value.
func (c *compiler) value(name string) (string, error) {
	word, err := c.next()
	if err == nil && word != name {
		err = fmt.Errorf("option %q of a target", word)
	}
	if err != nil {
		return "", err
	}
	return c.next()
}

// reject refuses with the ICMP error for an unreachable port, which is that of the target without options, too, or
// resets a connection of TCP.
func (c *compiler) reject() error {
	code, with := uint8(3), "icmp-port-unreachable" // ICMP_PORT_UNREACH
	if c.family == kernel.IPv6 {
		code, with = 4, "icmp6-port-unreachable" // ICMPV6_PORT_UNREACH
	}
	if len(c.words) > 0 {
		got, err := c.value("--reject-with")
		if err != nil {
			return err
		}
		if got == "tcp-reset" && c.proto == unix.IPPROTO_TCP {
			c.add("reject", num(unix.NFTA_REJECT_TYPE, unix.NFT_REJECT_TCP_RST))
			c.say("reject with tcp reset")
			return nil
		}
		if got != with {
			return fmt.Errorf("to reject with %s", got)
		}
	}
	c.add("reject", num(unix.NFTA_REJECT_TYPE, unix.NFT_REJECT_ICMP_UNREACH), octet(unix.NFTA_REJECT_ICMP_CODE, code))
	c.say("reject")
	return nil
}

func (c *compiler) masquerade() error {
	random, err := c.flag("--random-fully")
	switch {
	case err != nil:
		return err
	case random:
		c.add("masq", num(unix.NFTA_MASQ_FLAGS, randomFully))
		c.say("masquerade fully-random")
	default:
		c.add("masq")
		c.say("masquerade")
	}
	return nil
}

// setMark sets the bits of the mask to those of a value, by xor beyond the mask.
func (c *compiler) setMark() error {
	s, err := c.value("--set-xmark")
	if err != nil {
		return err
	}
	value, mask, err := masked(s)
	if err != nil {
		return err
	}
	c.meta(0, unix.NFT_META_MARK)
	c.mask(0, native(^mask), native(value))
	c.add("meta", num(unix.NFTA_META_KEY, unix.NFT_META_MARK), num(unix.NFTA_META_SREG, reg(0)))
	switch {
	case mask == 0:
		c.say("meta mark set mark xor %#x", value)
	case mask == value:
		c.say("meta mark set mark or %#x", value)
	default:
		c.say("meta mark set mark and %#x xor %#x", ^mask, value)
	}
	return nil
}

// destination translates to an address and port.
func (c *compiler) destination() error {
	if len(c.words) > 0 && c.words[0].Text == "--map" {
		return c.slot()
	}
	s, err := c.value("--to-destination")
	if err != nil {
		return err
	}
	to, err := netip.ParseAddrPort(s)
	if err != nil || kernel.FamilyOf(to.Addr()) != c.family || c.proto == 0 {
		return fmt.Errorf("destination %q", s)
	}
	port := uint32(4) // the first register behind the address
	c.constant(0, to.Addr().AsSlice())
	c.constant(port, binary.BigEndian.AppendUint16(nil, to.Port()))
	c.nat(0, port)
	c.say("dnat to %s", to)
	return nil
}

func (c *compiler) constant(r uint32, value []byte) {
	c.add("immediate", num(unix.NFTA_IMMEDIATE_DREG, reg(r)), data(unix.NFTA_IMMEDIATE_DATA, value))
}

// nat translates to the address and port in registers.
func (c *compiler) nat(addr, port uint32) {
	c.add("nat", num(unix.NFTA_NAT_TYPE, unix.NFT_NAT_DNAT), num(unix.NFTA_NAT_FAMILY, uint32(c.family)),
		num(unix.NFTA_NAT_REG_ADDR_MIN, reg(addr)), num(unix.NFTA_NAT_REG_ADDR_MAX, reg(addr)),
		num(unix.NFTA_NAT_REG_PROTO_MIN, reg(port)), num(unix.NFTA_NAT_REG_PROTO_MAX, reg(port)),
		num(unix.NFTA_NAT_FLAGS, mapIPs|protoSpecified))
}

// chainName is the name of a chain in our table of nftables. There all chains of a family are in one table.
func chainName(table, name string) string { return table + "-" + name }

// cutChain is the inverse of chainName.
func cutChain(name string) (table, chain string, ok bool) {
	table, chain, ok = strings.Cut(name, "-")
	return table, chain, ok && hooks[table] != nil
}

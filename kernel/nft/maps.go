package nft

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// verdictMap goes to the chain that a map has for the packet: -j VMAP --map NAME dst,dst. The chain's number gets into
// the packet's priority on the way, as a slot does.
func (c *compiler) verdictMap() error {
	name, directions, shape, err := c.mapOf()
	if err != nil {
		return err
	}
	key, _, err := c.key(shape.fields, directions)
	if err != nil {
		return err
	}
	if !shape.class || len(c.words) > 0 {
		return fmt.Errorf("map %s with %d words behind it", name, len(c.words))
	}
	c.add("lookup", text(unix.NFTA_LOOKUP_SET, name), num(unix.NFTA_LOOKUP_SREG, reg(0)),
		num(unix.NFTA_LOOKUP_DREG, reg(0)))
	c.add("meta", num(unix.NFTA_META_KEY, unix.NFT_META_PRIORITY), num(unix.NFTA_META_SREG, reg(0)))
	c.meta(0, unix.NFT_META_PRIORITY)
	to := classes(c.names, c.family)
	c.add("lookup", text(unix.NFTA_LOOKUP_SET, to), num(unix.NFTA_LOOKUP_SREG, reg(0)),
		num(unix.NFTA_LOOKUP_DREG, unix.NFT_REG_VERDICT))
	c.say("meta priority set %s map @%s meta priority vmap @%s", key, name, to)
	return nil
}

// mapOf reads --map NAME DIRECTIONS.
func (c *compiler) mapOf() (name, directions string, s shape, err error) {
	if name, err = c.value("--map"); err != nil {
		return "", "", s, err
	}
	if directions, err = c.next(); err == nil {
		s, err = c.shape(name)
	}
	return name, directions, s, err
}

// slot translates to the endpoint that a map has for the packet and a slot: -j DNAT --map NAME dst,dst, and how the
// slot is chosen:
//
//	--random N [--offset K]                                 by chance
//	--hash src[/LEN][,sport] --mod N --seed S [--offset K]  by a hash of the client
//
// The slot gets into the key by the packet's priority, whose type is a class id. A number straight from numgen is an
// integer, which has no length of its own: nft 1.0.2 aborts when it lists a concatenation with one. Of the fields of a
// packet that nft can set and read again, the priority harms least. Only the first packet of a connection comes here,
// and a forwarded one of IPv4 gets another priority behind this hook. One of IPv6 or of the node itself keeps the slot.
func (c *compiler) slot() error {
	name, directions, shape, err := c.mapOf()
	if err != nil {
		return err
	}
	if shape.to == nil {
		return fmt.Errorf("map %s has no endpoints", name)
	}
	how, err := c.next()
	if err != nil {
		return err
	}
	var choice string
	switch how {
	case "--random":
		choice, err = c.random()
	case "--hash":
		choice, err = c.hash()
	default:
		err = fmt.Errorf("option %q of a map", how)
	}
	if err != nil {
		return err
	}
	c.add("meta", num(unix.NFTA_META_KEY, unix.NFT_META_PRIORITY), num(unix.NFTA_META_SREG, reg(0)))
	key, next, err := c.key(shape.fields, directions)
	if err != nil {
		return err
	}
	c.meta(next, unix.NFT_META_PRIORITY)
	c.add("lookup", text(unix.NFTA_LOOKUP_SET, name), num(unix.NFTA_LOOKUP_SREG, reg(0)),
		num(unix.NFTA_LOOKUP_DREG, reg(0)))
	c.nat(0, uint32(c.family.Bits()/32))
	c.say("meta priority set %s dnat %s to %s . meta priority map @%s", choice, ip(c.family), key, name)
	return nil
}

// random puts a random slot into the first register.
func (c *compiler) random() (string, error) {
	n, err := c.number()
	if err != nil {
		return "", err
	}
	offset, text, err := c.offset()
	c.add("numgen", num(unix.NFTA_NG_DREG, reg(0)), num(unix.NFTA_NG_MODULUS, n),
		num(unix.NFTA_NG_TYPE, unix.NFT_NG_RANDOM), num(unix.NFTA_NG_OFFSET, offset))
	return fmt.Sprintf("numgen random mod %d%s", n, text), err
}

// client is the first of the registers that a hash is made of.
const client = 4

// hash puts the slot of a client into the first register. It is Jenkins's hash (linux/jhash.h) of the address, and of
// the port padded to 32 bits behind it, scaled to N.
func (c *compiler) hash() (string, error) {
	of, err := c.next()
	if err != nil {
		return "", err
	}
	of, withPort := strings.CutSuffix(of, ",sport")
	of, length, masked := strings.Cut(of, "/")
	if of != "src" {
		return "", fmt.Errorf("hash of %q", of)
	}
	n, name := c.loadAddr(client, "src")
	if masked {
		bits, err := strconv.Atoi(length)
		if err != nil || bits < 1 || bits > c.family.Bits() {
			return "", fmt.Errorf("hash of a prefix of %q bits", length)
		}
		mask := maskOf(bits, c.family.Bits())
		c.mask(client, mask, make([]byte, len(mask)))
		name += " and " + addrText(mask)
	}
	if withPort {
		c.loadPort(client+n, "src")
		name += " . th sport"
		n++
	}
	modulus, err := c.numbered("--mod")
	if err != nil {
		return "", err
	}
	seed, err := c.numbered("--seed")
	if err != nil {
		return "", err
	}
	offset, text, err := c.offset()
	attrs := []attr{num(unix.NFTA_HASH_SREG, reg(client)), num(unix.NFTA_HASH_DREG, reg(0)),
		num(unix.NFTA_HASH_LEN, 4*n), num(unix.NFTA_HASH_MODULUS, modulus), num(unix.NFTA_HASH_SEED, seed)}
	if offset > 0 {
		attrs = append(attrs, num(unix.NFTA_HASH_OFFSET, offset))
	}
	c.add("hash", attrs...)
	return fmt.Sprintf("jhash %s mod %d seed %#x%s", name, modulus, seed, text), err
}

// offset reads --offset K, which may be missing.
func (c *compiler) offset() (k uint32, text string, err error) {
	if len(c.words) == 0 {
		return 0, "", nil
	}
	if k, err = c.numbered("--offset"); err == nil && len(c.words) > 0 {
		err = fmt.Errorf("words behind --offset")
	}
	return k, fmt.Sprintf(" offset %d", k), err
}

func (c *compiler) numbered(name string) (uint32, error) {
	if word, err := c.next(); err != nil || word != name {
		return 0, fmt.Errorf("option %q where %s belongs", word, name)
	}
	return c.number()
}

func (c *compiler) number() (uint32, error) {
	word, err := c.next()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(word, 0, 32)
	if err != nil {
		return 0, fmt.Errorf("number %q", word)
	}
	return uint32(n), nil
}

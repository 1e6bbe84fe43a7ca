package nft

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// verdictMap goes to the chain that a map has for the packet: -j VMAP --map NAME dst,dst.
func (c *compiler) verdictMap() error {
	shape, name, key, _, err := c.mapKey()
	if err != nil {
		return err
	}
	if !shape.verdict || len(c.words) > 0 {
		return fmt.Errorf("map %s with %d words behind it", name, len(c.words))
	}
	c.add("lookup", text(unix.NFTA_LOOKUP_SET, name), num(unix.NFTA_LOOKUP_SREG, reg(0)),
		num(unix.NFTA_LOOKUP_DREG, unix.NFT_REG_VERDICT))
	c.say("%s vmap @%s", key, name)
	return nil
}

// mapKey reads --map NAME DIRECTIONS and loads the key, but for its slot, which belongs into the next register.
func (c *compiler) mapKey() (s shape, name, key string, next uint32, err error) {
	if name, err = c.value("--map"); err != nil {
		return s, "", "", 0, err
	}
	directions, err := c.next()
	if err == nil {
		s, err = c.shape(name)
	}
	if err == nil {
		key, next, err = c.key(s.fields, directions)
	}
	return s, name, key, next, err
}

// slot translates to the endpoint that a map has for the packet and a slot: -j DNAT --map NAME dst,dst, and how the
// slot is chosen:
//
//	--random N [--offset K]                                 by chance
//	--turn N [--offset K]                                   in turn
//	--hash src[/LEN][,sport] --mod N --seed S [--offset K]  by a hash of the client
func (c *compiler) slot() error {
	shape, name, key, slot, err := c.mapKey()
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
		choice, err = c.numgen(slot, unix.NFT_NG_RANDOM, "numgen random")
	case "--turn":
		choice, err = c.numgen(slot, unix.NFT_NG_INCREMENTAL, "numgen inc")
	case "--hash":
		choice, err = c.hash(slot)
	default:
		err = fmt.Errorf("option %q of a map", how)
	}
	if err != nil {
		return err
	}
	c.add("lookup", text(unix.NFTA_LOOKUP_SET, name), num(unix.NFTA_LOOKUP_SREG, reg(0)),
		num(unix.NFTA_LOOKUP_DREG, reg(0)))
	c.nat(0, uint32(c.family.Bits()/32))
	c.say("dnat %s to %s . %s map @%s", ip(c.family), key, choice, name)
	return nil
}

func (c *compiler) numgen(slot, kind uint32, name string) (string, error) {
	n, err := c.number()
	if err != nil {
		return "", err
	}
	offset, text, err := c.offset()
	c.add("numgen", num(unix.NFTA_NG_DREG, reg(slot)), num(unix.NFTA_NG_MODULUS, n), num(unix.NFTA_NG_TYPE, kind),
		num(unix.NFTA_NG_OFFSET, offset))
	return fmt.Sprintf("%s mod %d%s", name, n, text), err
}

// scratch is the first of the registers that a hash is made of. The longest key of a map has seven.
const scratch = 8

// hash puts the slot of a client into a register. It is Jenkins's hash (linux/jhash.h) of the address, and of the port
// padded to 32 bits behind it, modulo N.
func (c *compiler) hash(slot uint32) (string, error) {
	of, err := c.next()
	if err != nil {
		return "", err
	}
	of, withPort := strings.CutSuffix(of, ",sport")
	of, length, masked := strings.Cut(of, "/")
	if of != "src" {
		return "", fmt.Errorf("hash of %q", of)
	}
	n, name := c.loadAddr(scratch, "src")
	if masked {
		bits, err := strconv.Atoi(length)
		if err != nil || bits < 1 || bits > c.family.Bits() {
			return "", fmt.Errorf("hash of a prefix of %q bits", length)
		}
		mask := maskOf(bits, c.family.Bits())
		c.mask(scratch, mask, make([]byte, len(mask)))
		name += " and " + addrText(mask)
	}
	if withPort {
		c.loadPort(scratch+n, "src")
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
	attrs := []attr{num(unix.NFTA_HASH_SREG, reg(scratch)), num(unix.NFTA_HASH_DREG, reg(slot)),
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

package ipset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
)

// Verify reports whether the sets with our names are those known, with as many entries. For sets
// that has selects, it also reports whether their entries are the same. It builds no entries.
func (s *Sets) Verify(names kernel.Names, known *kernel.State, has func(set string) bool) (bool, error) {
	heads, err := s.heads(names)
	if err != nil || len(heads) != len(known.Sets) {
		return false, err
	}
	for i, h := range heads {
		if h.set != known.Sets[i] || !h.counts(known.Entries.Of(h.set.Name).Len()) {
			return false, nil
		}
	}
	for _, h := range heads {
		if !has(h.set.Name) {
			continue
		}
		same, err := s.holds(h, known.Entries.Of(h.set.Name))
		if err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// counts reports whether the header agrees with n entries. Exceptions, which only sets of networks
// have, are counted by the kernel but not read.
func (h head) counts(n int) bool {
	return !h.counted || !h.readable() || h.set.Type == kernel.HashIPPortNet || int(h.elements) == n
}

// holds reports whether a set has exactly these entries.
func (s *Sets) holds(h head, entries kernel.Entries) (bool, error) {
	if h.empty() {
		return entries.Len() == 0, nil
	}
	var there tally
	var common shape
	err := s.list(h.set.Name, func() { there = tally{} }, func(member []byte) error {
		if common.fits(member) {
			there.add(common.canonical(member))
			return nil
		}
		e, ok, err := decodeEntry(member)
		if err != nil || !ok {
			return err
		}
		there.add(canonical(&e))
		common = learn(member)
		return nil
	})
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, nil // destroyed after its header was read
	case err != nil:
		return false, fmt.Errorf("listing ipset %s: %w", h.set.Name, err)
	case there.n != entries.Len():
		return false, nil
	}
	var wanted tally
	for _, run := range entries.Runs() {
		for i := range run {
			wanted.add(canonical(&run[i]))
		}
	}
	return there == wanted, nil
}

// tally is a number of entries and the sum of their hashes. The kernel lists entries in its own
// order, and a sum does not depend on it. The key is known to this process only, so two different
// collections have the same tally with a chance of 1 in 2^64.
type tally struct {
	n   int
	sum uint64
}

var seed = maphash.MakeSeed()

func (t *tally) add(e [canonicalSize]byte) {
	t.n++
	t.sum += maphash.Bytes(seed, e[:])
}

// The canonical form of an entry is its address, second address, port, protocol, and the prefix
// length of the second, or noSecond. IPv4 addresses are IPv4-mapped.
const (
	canonicalSecond = 16
	canonicalPort   = 32
	canonicalProto  = 34
	canonicalBits   = 35
	canonicalSize   = 36
)

func canonical(e *kernel.Entry) (c [canonicalSize]byte) {
	if e.Addr.IsValid() {
		a := e.Addr.As16()
		copy(c[:], a[:])
	}
	c[canonicalBits] = noSecond
	if e.Second.IsValid() {
		a := e.Second.Addr().As16()
		copy(c[canonicalSecond:], a[:])
		c[canonicalBits] = uint8(e.Second.Bits())
	}
	binary.BigEndian.PutUint16(c[canonicalPort:], e.Port)
	c[canonicalProto] = uint8(e.Proto)
	return c
}

// canonical returns that form of an entry with this shape.
func (s *shape) canonical(member []byte) (c [canonicalSize]byte) {
	s.address(c[:], member[s.ip:])
	c[canonicalBits] = noSecond
	if s.second != 0 {
		s.address(c[canonicalSecond:], member[s.second:])
		switch {
		case s.bits != 0:
			c[canonicalBits] = member[s.bits]
		case s.six:
			c[canonicalBits] = 128
		default:
			c[canonicalBits] = 32
		}
	}
	if s.port != 0 {
		copy(c[canonicalPort:canonicalProto], member[s.port:])
	}
	if s.proto != 0 {
		c[canonicalProto] = member[s.proto]
	}
	return c
}

func (s *shape) address(to, from []byte) {
	if s.six {
		copy(to[:16], from)
		return
	}
	to[10], to[11] = 0xff, 0xff
	copy(to[12:16], from)
}

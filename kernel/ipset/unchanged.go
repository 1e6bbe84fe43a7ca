package ipset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
)

// Unchanged says whether the sets of our names are those known, with as many
// entries as known, and, where has says so of a set, with the same ones. It builds
// no entries.
func (s *Sets) Unchanged(names kernel.Names, known *kernel.State, has func(set string) bool) (bool, error) {
	heads, err := s.heads(names)
	if err != nil || len(heads) != len(known.Sets) {
		return false, err
	}
	for i, h := range heads {
		if h.set != known.Sets[i] || !h.counts(len(known.EntriesOf(h.set.Name))) {
			return false, nil
		}
	}
	for _, h := range heads {
		if !has(h.set.Name) {
			continue
		}
		same, err := s.holds(h, known.EntriesOf(h.set.Name))
		if err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// counts says whether the header allows for n entries. Exceptions, which only
// networks have, are counted and not read.
func (h head) counts(n int) bool {
	return !h.counted || !h.readable() || h.set.Type == kernel.HashIPPortNet || int(h.elements) == n
}

// holds says whether a set holds these entries and no others.
func (s *Sets) holds(h head, entries []kernel.Entry) (bool, error) {
	if h.empty() {
		return len(entries) == 0, nil
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
		return false, nil // destroyed since its header was read
	case err != nil:
		return false, fmt.Errorf("listing ipset %s: %w", h.set.Name, err)
	case there.n != len(entries):
		return false, nil
	}
	var wanted tally
	for i := range entries {
		wanted.add(canonical(&entries[i]))
	}
	return there == wanted, nil
}

// tally is a number of entries and a sum of their hashes: the kernel lists them in
// the order of its own. With a key that only this process has, two collections
// have the same one by a chance of 1 in 2^64.
type tally struct {
	n   int
	sum uint64
}

var seed = maphash.MakeSeed()

func (t *tally) add(e [canonicalSize]byte) {
	t.n++
	t.sum += maphash.Bytes(seed, e[:])
}

// The canonical form of an entry is its address, second address, port, protocol, and
// the length of the second's prefix, or noSecond. IPv4 addresses are as IPv6 has them.
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

// canonical gives that form of an entry which fits the shape.
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

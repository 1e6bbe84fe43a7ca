package ipset

import (
	"encoding/binary"

	"github.com/svcproxy/svcproxy/kernel/nl"
)

// shape says where the parts of an entry are among its attributes. The entries of a set are alike,
// so it is learned from one, and the others are decoded by position. Walking their attributes took
// half as long as the kernel takes to list them. The zero shape fits no entry.
type shape struct {
	size  int
	heads []head32 // attributes that must be at the same offsets

	ip, port, proto, second, bits int // offsets of values, 0 if there is none

	six bool // the addresses are IPv6
}

// head32 is the length and type of an attribute in one word.
type head32 struct {
	offset int
	word   uint32
}

// learn returns the shape of an entry that decodeEntry has decoded. It is zero if the entry has
// parts that ours do not have.
func learn(member []byte) (s shape) {
	offset, six := 0, false
	for a := nl.ParseAttrs(member); a.Next(); {
		s.head(member, offset)
		value, n := offset+sizeofAttr, len(a.Bytes())
		switch {
		case a.Type() == attrPort && n == 2:
			s.port = value
		case a.Type() == attrProto && n == 1:
			s.proto = value
		case a.Type() == attrCIDR2 && n == 1:
			s.bits = value
		case a.Type() == attrIP && (n == sizeofAttr+4 || n == sizeofAttr+16):
			s.head(member, value)
			s.ip, s.six = value+sizeofAttr, n == sizeofAttr+16
		case a.Type() == attrIP2 && (n == sizeofAttr+4 || n == sizeofAttr+16):
			s.head(member, value)
			s.second, six = value+sizeofAttr, n == sizeofAttr+16
		default:
			return shape{}
		}
		offset = value + (n+3)&^3
	}
	if s.ip == 0 || s.second != 0 && six != s.six {
		return shape{}
	}
	s.size = len(member)
	return s
}

const sizeofAttr = 4

func (s *shape) head(member []byte, offset int) {
	s.heads = append(s.heads, head32{offset, binary.NativeEndian.Uint32(member[offset:])})
}

// fits reports whether an entry has this shape.
func (s *shape) fits(member []byte) bool {
	if len(member) != s.size || s.size == 0 {
		return false
	}
	for _, h := range s.heads {
		if binary.NativeEndian.Uint32(member[h.offset:]) != h.word {
			return false
		}
	}
	return true
}

// pack decodes an IPv4 entry of this shape. ok is false for an entry of another shape.
func (s *shape) pack(member []byte) (p packed, ok bool) {
	if s.six || !s.fits(member) {
		return packed{}, false
	}
	p = packed{key: uint64(binary.BigEndian.Uint32(member[s.ip:])) << 24, bits: noSecond}
	if s.proto != 0 {
		p.key |= uint64(member[s.proto]) << 16
	}
	if s.port != 0 {
		p.key |= uint64(binary.BigEndian.Uint16(member[s.port:]))
	}
	if s.second != 0 {
		p.second, p.bits = binary.BigEndian.Uint32(member[s.second:]), 32
		if s.bits != 0 {
			if p.bits = member[s.bits]; p.bits > 32 {
				return packed{}, false
			}
		}
	}
	return p, true
}

package nl

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// Attrs walks netlink attributes in place:
//
//	for a := nl.ParseAttrs(p); a.Next(); {
//		switch a.Type() { ... }
//	}
//
// If an attribute, or a value that is asked for, has a wrong length, the walk ends and Err returns
// the error.
type Attrs struct {
	rest  []byte
	typ   uint16
	value []byte
	err   error
}

// ParseAttrs starts a walk over p. It keeps p and does not copy it.
func ParseAttrs(p []byte) Attrs { return Attrs{rest: p} }

// Next moves to the next attribute and reports whether there is one.
func (a *Attrs) Next() bool {
	if a.err != nil || len(a.rest) == 0 {
		return false
	}
	if len(a.rest) < unix.SizeofNlAttr {
		a.err = fmt.Errorf("netlink attribute: %d bytes left over after type %d", len(a.rest), a.typ)
		return false
	}
	n := int(binary.NativeEndian.Uint16(a.rest))
	typ := binary.NativeEndian.Uint16(a.rest[2:])
	if n < unix.SizeofNlAttr || n > len(a.rest) {
		a.err = fmt.Errorf("netlink attribute %d: length %d with %d bytes left", typ&typeMask, n, len(a.rest))
		return false
	}
	a.typ, a.value = typ&typeMask, a.rest[unix.SizeofNlAttr:n]
	// The last attribute of a message need not be padded.
	a.rest = a.rest[min(align(n), len(a.rest)):]
	return true
}

// Err returns the first wrong length, or nil.
func (a *Attrs) Err() error { return a.err }

// Type returns the type of the current attribute without its flag bits.
func (a *Attrs) Type() uint16 { return a.typ }

// Bytes returns the current value. It is valid as long as the bytes given to ParseAttrs.
func (a *Attrs) Bytes() []byte { return a.value }

// Nested starts a walk over the attributes inside the current one. It has its own Err.
func (a *Attrs) Nested() Attrs { return Attrs{rest: a.value} }

// U8 returns the current value of one byte.
func (a *Attrs) U8() uint8 {
	if !a.want(1) {
		return 0
	}
	return a.value[0]
}

// U16 returns the current value of two bytes in the machine's order.
func (a *Attrs) U16() uint16 {
	if !a.want(2) {
		return 0
	}
	return binary.NativeEndian.Uint16(a.value)
}

// U16BE returns the current value of two bytes in network order.
func (a *Attrs) U16BE() uint16 {
	if !a.want(2) {
		return 0
	}
	return binary.BigEndian.Uint16(a.value)
}

// U32 returns the current value of four bytes in the machine's order.
func (a *Attrs) U32() uint32 {
	if !a.want(4) {
		return 0
	}
	return binary.NativeEndian.Uint32(a.value)
}

// U32BE returns the current value of four bytes in network order.
func (a *Attrs) U32BE() uint32 {
	if !a.want(4) {
		return 0
	}
	return binary.BigEndian.Uint32(a.value)
}

// U64 returns the current value of eight bytes in the machine's order.
func (a *Attrs) U64() uint64 {
	if !a.want(8) {
		return 0
	}
	return binary.NativeEndian.Uint64(a.value)
}

// U64BE returns the current value of eight bytes in network order.
func (a *Attrs) U64BE() uint64 {
	if !a.want(8) {
		return 0
	}
	return binary.BigEndian.Uint64(a.value)
}

// Text returns the current value as a string, up to its first NUL.
func (a *Attrs) Text() string {
	s, _, _ := bytes.Cut(a.value, []byte{0})
	return string(s)
}

func (a *Attrs) want(n int) bool {
	if a.err == nil && len(a.value) != n {
		a.err = fmt.Errorf("netlink attribute %d: %d bytes where %d belong", a.typ, len(a.value), n)
	}
	return a.err == nil
}

// align rounds n up to netlink's alignment.
func align(n int) int { return (n + unix.NLMSG_ALIGNTO - 1) &^ (unix.NLMSG_ALIGNTO - 1) }

// typeMask removes the flag bits NLA_F_NESTED and NLA_F_NET_BYTEORDER from a type
// (linux/netlink.h).
const typeMask = 1<<14 - 1

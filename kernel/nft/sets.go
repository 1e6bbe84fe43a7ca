package nft

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// field is a part of a set's key.
type field uint8

// The fields, in the order of an Entry.
const (
	addrField field = iota
	protoField
	portField
	secondField
)

// shape is what a type of set is in nf_tables: a key of several fields is a concatenation, each field padded to 32
// bits.
type shape struct {
	fields   []field
	interval bool // the last field is a prefix
}

var shapes = map[kernel.SetType]shape{
	kernel.HashIP:        {fields: []field{addrField}},
	kernel.HashIPPort:    {fields: []field{addrField, protoField, portField}},
	kernel.HashIPPortIP:  {fields: []field{addrField, protoField, portField, secondField}},
	kernel.HashIPPortNet: {fields: []field{addrField, protoField, portField, secondField}, interval: true},
	kernel.BitmapPort:    {fields: []field{portField}},
}

// size is the length of a field in bytes, and typ its number among nft's data types, which is how nft knows what to
// print.
func (f field) size(family kernel.Family) int {
	switch f {
	case protoField:
		return 1
	case portField:
		return 2
	}
	return family.Bits() / 8
}

func (f field) typ(family kernel.Family) uint32 {
	switch {
	case f == protoField:
		return 12
	case f == portField:
		return 13
	case family == kernel.IPv6:
		return 8
	}
	return 7
}

// keySize is the length of a key in bytes, and keyType the number of its type: six bits for each field.
func keySize(fields []field, f kernel.Family) (n int) {
	if len(fields) == 1 {
		return fields[0].size(f)
	}
	for _, x := range fields {
		n += (x.size(f) + 3) &^ 3
	}
	return n
}

func keyType(fields []field, f kernel.Family) (typ uint32) {
	for _, x := range fields {
		typ = typ<<6 | x.typ(f)
	}
	return typ
}

func (s shape) flags() uint32 {
	if s.interval {
		return unix.NFT_SET_INTERVAL | setConcat
	}
	return 0
}

// putSet adds the message that creates a set. It has no size, so it grows as needed.
func putSet(b *nl.Batch, table string, s kernel.Set, id uint32) error {
	shape, ok := shapes[s.Type]
	if !ok {
		return fmt.Errorf("nftables has no sets of type %s", s.Type)
	}
	begin(b, unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE|unix.NLM_F_EXCL, s.Family)
	b.Text(unix.NFTA_SET_TABLE, table)
	b.Text(unix.NFTA_SET_NAME, s.Name)
	b.U32BE(unix.NFTA_SET_ID, id)
	b.U32BE(unix.NFTA_SET_FLAGS, shape.flags())
	b.U32BE(unix.NFTA_SET_KEY_TYPE, keyType(shape.fields, s.Family))
	b.U32BE(unix.NFTA_SET_KEY_LEN, uint32(keySize(shape.fields, s.Family)))
	if shape.interval {
		desc := b.Nest(unix.NFTA_SET_DESC)
		concat := b.Nest(descConcat)
		for _, f := range shape.fields {
			elem := b.Nest(unix.NFTA_LIST_ELEM)
			b.U32BE(fieldLen, uint32(f.size(s.Family)))
			b.EndNest(elem)
		}
		b.EndNest(concat)
		b.EndNest(desc)
	}
	b.End()
	return nil
}

// maxKey is the longest key in bytes: two addresses of IPv6, a protocol and a port.
const maxKey = 16 + 4 + 4 + 16

// key is an element's key, or the end of its range.
type key struct {
	bytes [maxKey]byte
	n     int
}

func (k *key) add(p []byte) { k.n += (copy(k.bytes[k.n:], p) + 3) &^ 3 }

func (k *key) addr(a netip.Addr) {
	if a.Is4() {
		p := a.As4()
		k.add(p[:])
		return
	}
	p := a.As16()
	k.add(p[:])
}

// encode returns the key of an entry. end: that of the last address of its prefix.
func (s shape) encode(e *kernel.Entry, f kernel.Family, end bool) (k key, err error) {
	for _, x := range s.fields {
		a := e.Addr
		switch x {
		case protoField:
			k.add([]byte{byte(e.Proto)})
			continue
		case portField:
			k.add([]byte{byte(e.Port >> 8), byte(e.Port)})
			continue
		case secondField:
			if a = e.Second.Addr(); !e.Second.IsValid() || !s.interval && !e.Second.IsSingleIP() {
				return k, fmt.Errorf("%s does not fit the set", e.Member())
			}
			if a = e.Second.Masked().Addr(); end {
				a = lastOf(e.Second)
			}
		}
		if !a.IsValid() || kernel.FamilyOf(a) != f {
			return k, fmt.Errorf("%s does not fit the set", e.Member())
		}
		k.addr(a)
	}
	if e.Proto == 0 && len(s.fields) > 1 || e.Addr.IsValid() && s.fields[0] != addrField {
		return k, fmt.Errorf("%s does not fit the set", e.Member())
	}
	k.n = keySize(s.fields, f)
	return k, nil
}

// lastOf returns the last address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < 8*len(b); i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// putKey appends a key to an element.
func putKey(b *nl.Batch, typ uint16, k *key) {
	in := b.Nest(typ)
	b.Attr(unix.NFTA_DATA_VALUE, k.bytes[:k.n])
	b.EndNest(in)
}

// putElement appends an element of a set.
func (s shape) putElement(b *nl.Batch, e *kernel.Entry, f kernel.Family) error {
	from, err := s.encode(e, f, false)
	if err != nil {
		return err
	}
	elem := b.Nest(unix.NFTA_LIST_ELEM)
	putKey(b, unix.NFTA_SET_ELEM_KEY, &from)
	if s.interval {
		to, err := s.encode(e, f, true)
		if err != nil {
			return err
		}
		putKey(b, elemKeyEnd, &to)
	}
	b.EndNest(elem)
	return nil
}

// decode reads an element. ok is false if it is none that encode makes: another program added it.
func (s shape) decode(a nl.Attrs, f kernel.Family) (e kernel.Entry, ok bool, err error) {
	var from, to []byte
	odd := false
	for a.Next() {
		switch a.Type() {
		case unix.NFTA_SET_ELEM_KEY:
			from = value(a.Nested())
		case elemKeyEnd:
			to = value(a.Nested())
		case unix.NFTA_SET_ELEM_FLAGS:
			odd = odd || a.U32BE() != 0
		case unix.NFTA_SET_ELEM_TIMEOUT, unix.NFTA_SET_ELEM_EXPIRATION:
			odd = true
		}
	}
	n := keySize(s.fields, f)
	if err := a.Err(); err != nil || odd || len(from) != n || s.interval && len(to) != n {
		return e, false, err
	}
	at := 0
	for _, x := range s.fields {
		part := from[at : at+x.size(f)]
		switch x {
		case addrField:
			e.Addr, _ = netip.AddrFromSlice(part)
		case protoField:
			e.Proto = kernel.Proto(part[0])
		case portField:
			e.Port = binary.BigEndian.Uint16(part)
		case secondField:
			last := part
			if s.interval {
				last = to[at : at+x.size(f)]
			}
			if e.Second, ok = prefixOf(part, last); !ok {
				return e, false, nil
			}
		}
		at += (x.size(f) + 3) &^ 3
	}
	return e, true, nil
}

// prefixOf returns the prefix of a range of addresses. ok is false if the range is none.
func prefixOf(first, last []byte) (p netip.Prefix, ok bool) {
	a, _ := netip.AddrFromSlice(first)
	bits := 0
	for bits < a.BitLen() && (first[bits/8]^last[bits/8])&(0x80>>(bits%8)) == 0 {
		bits++
	}
	p = netip.PrefixFrom(a, bits)
	to, _ := netip.AddrFromSlice(last)
	return p, p.Masked() == p && lastOf(p) == to
}

// value returns the bytes of a constant.
func value(a nl.Attrs) (p []byte) {
	for a.Next() {
		if a.Type() == unix.NFTA_DATA_VALUE {
			p = a.Bytes()
		}
	}
	return p
}

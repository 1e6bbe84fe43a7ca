package nft

import (
	"bytes"
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
	slotField
)

// shape is what a type of set is in nf_tables: a key of several fields is a concatenation, each field padded to 32
// bits. Of a map the value is a verdict or a concatenation.
type shape struct {
	fields   []field
	interval bool // the last field is a prefix
	verdict  bool
	to       []field // secondField and the port
}

var shapes = map[kernel.SetType]shape{
	kernel.HashIP:        {fields: []field{addrField}},
	kernel.HashIPPort:    {fields: []field{addrField, protoField, portField}},
	kernel.HashIPPortIP:  {fields: []field{addrField, protoField, portField, secondField}},
	kernel.HashIPPortNet: {fields: []field{addrField, protoField, portField, secondField}, interval: true},
	kernel.BitmapPort:    {fields: []field{portField}},
	kernel.MapIPPort:     {fields: []field{addrField, protoField, portField}, verdict: true},
	kernel.MapPort:       {fields: []field{protoField, portField}, verdict: true},
	kernel.MapIPPortSlot: {fields: []field{addrField, protoField, portField, slotField}, to: endpoint},
	kernel.MapPortSlot:   {fields: []field{protoField, portField, slotField}, to: endpoint},
}

var endpoint = []field{secondField, portField}

// size is the length of a field in bytes, and typ its number among nft's data types, which is how nft knows what to
// print.
func (f field) size(family kernel.Family) int {
	switch f {
	case protoField:
		return 1
	case portField:
		return 2
	case slotField:
		return 4
	}
	return family.Bits() / 8
}

const classID = 23

func (f field) typ(family kernel.Family) uint32 {
	switch {
	case f == protoField:
		return 12
	case f == portField:
		return 13
	case f == slotField:
		return classID // see compiler.slot
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
	switch {
	case s.interval:
		return unix.NFT_SET_INTERVAL | setConcat
	case s.isMap():
		return unix.NFT_SET_MAP
	}
	return 0
}

func (s shape) isMap() bool { return s.verdict || s.to != nil }

// dataType and dataSize are the type and the length of values, 0 without them. The kernel knows the length of a
// verdict.
func (s shape) dataType(f kernel.Family) uint32 {
	if s.verdict {
		return typeOfVerdict
	}
	return keyType(s.to, f)
}

func (s shape) dataSize(f kernel.Family) uint32 {
	if s.to == nil {
		return 0
	}
	return uint32(keySize(s.to, f))
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
	if shape.isMap() {
		b.U32BE(unix.NFTA_SET_DATA_TYPE, shape.dataType(s.Family))
		if n := shape.dataSize(s.Family); n > 0 {
			b.U32BE(unix.NFTA_SET_DATA_LEN, n)
		}
	}
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

// key is an element's key, the end of its range, or its value.
type key struct {
	bytes [maxKey]byte
	n     int
}

func (k *key) add(p []byte) { k.n += (copy(k.bytes[k.n:], p) + 3) &^ 3 }

// addr appends an address and reports whether it is of the family.
func (k *key) addr(a netip.Addr, f kernel.Family) bool {
	switch {
	case !a.IsValid() || kernel.FamilyOf(a) != f:
		return false
	case a.Is4():
		p := a.As4()
		k.add(p[:])
	default:
		p := a.As16()
		k.add(p[:])
	}
	return true
}

// encode returns the key of an entry. end: that of the last address of its prefix. ok is false if the entry does not
// fit the set.
func (s shape) encode(e *kernel.Entry, f kernel.Family, end bool) (k key, ok bool) {
	hasAddr, hasProto := false, false
	for _, x := range s.fields {
		ok := true
		switch x {
		case addrField:
			hasAddr, ok = true, k.addr(e.Addr, f)
		case protoField:
			hasProto = true
			k.add([]byte{byte(e.Proto)})
		case portField:
			k.add([]byte{byte(e.Port >> 8), byte(e.Port)})
		case slotField:
			k.add(native(uint32(e.Slot)))
		case secondField:
			a := e.Second.Masked().Addr()
			if end && a.IsValid() {
				a = lastOf(e.Second)
			}
			ok = k.addr(a, f) && (s.interval || e.Second.IsSingleIP())
		}
		if !ok {
			return k, false
		}
	}
	k.n = keySize(s.fields, f)
	return k, hasAddr == e.Addr.IsValid() && hasProto == (e.Proto != 0) && s.verdict == (e.Goto != "") &&
		(s.to != nil) == (e.ToPort != 0)
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

// putElement appends an element of a set, with its value if it is added. ok is false if the entry does not fit.
func (s shape) putElement(b *nl.Batch, e *kernel.Entry, f kernel.Family, added bool) (ok bool) {
	from, ok := s.encode(e, f, false)
	if !ok {
		return false
	}
	elem := b.Nest(unix.NFTA_LIST_ELEM)
	putKey(b, unix.NFTA_SET_ELEM_KEY, &from)
	switch {
	case s.interval:
		to, _ := s.encode(e, f, true)
		putKey(b, elemKeyEnd, &to)
	case s.verdict && added:
		data := b.Nest(unix.NFTA_SET_ELEM_DATA)
		verdict := b.Nest(unix.NFTA_DATA_VERDICT)
		b.U32BE(unix.NFTA_VERDICT_CODE, goTo)
		b.Text(unix.NFTA_VERDICT_CHAIN, chainName("nat", e.Goto))
		b.EndNest(verdict)
		b.EndNest(data)
	case s.to != nil && added:
		var to key
		if !to.addr(e.Second.Addr(), f) || !e.Second.IsSingleIP() {
			return false
		}
		to.add([]byte{byte(e.ToPort >> 8), byte(e.ToPort)})
		putKey(b, unix.NFTA_SET_ELEM_DATA, &to)
	}
	b.EndNest(elem)
	return true
}

// goTo is NFT_GOTO as it is sent.
const goTo = 1<<32 + unix.NFT_GOTO

// decode reads an element. ok is false if it is none that encode makes: another program added it. chains has the names
// of chains that were read before: most elements lead to one of a few.
func (s shape) decode(a nl.Attrs, f kernel.Family, chains map[string]string) (e kernel.Entry, ok bool, err error) {
	var from, to, data []byte
	odd, chain := false, ""
	for a.Next() {
		switch a.Type() {
		case unix.NFTA_SET_ELEM_KEY:
			from = value(a.Nested())
		case elemKeyEnd:
			to = value(a.Nested())
		case unix.NFTA_SET_ELEM_DATA:
			if data = value(a.Nested()); s.verdict {
				chain = gotoOf(a.Nested(), chains)
			}
		case unix.NFTA_SET_ELEM_FLAGS:
			odd = odd || a.U32BE() != 0
		case unix.NFTA_SET_ELEM_TIMEOUT, unix.NFTA_SET_ELEM_EXPIRATION:
			odd = true
		}
	}
	n := keySize(s.fields, f)
	if err := a.Err(); err != nil || odd || len(from) != n || s.interval && len(to) != n ||
		uint32(len(data)) != s.dataSize(f) {
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
		case slotField:
			slot := binary.NativeEndian.Uint32(part)
			if e.Slot = uint16(slot); uint32(e.Slot) != slot {
				return e, false, nil
			}
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
	if s.to != nil {
		size := f.Bits() / 8
		to, _ := netip.AddrFromSlice(data[:size])
		e.Second, e.ToPort = netip.PrefixFrom(to, to.BitLen()), binary.BigEndian.Uint16(data[size:])
	}
	e.Goto = chain
	return e, s.verdict == (e.Goto != "") && (s.to != nil) == (e.ToPort != 0), nil
}

// gotoOf returns the chain of table nat that a verdict goes to, "" for another verdict.
func gotoOf(a nl.Attrs, chains map[string]string) (chain string) {
	for a.Next() {
		if a.Type() != unix.NFTA_DATA_VERDICT {
			continue
		}
		var code uint32
		var name []byte
		for v := a.Nested(); v.Next(); {
			switch v.Type() {
			case unix.NFTA_VERDICT_CODE:
				code = v.U32BE()
			case unix.NFTA_VERDICT_CHAIN:
				name = v.Bytes()
			}
		}
		if code != goTo {
			return ""
		}
		chain, known := chains[string(name)]
		if !known {
			table, own, _ := cutChain(string(bytes.TrimRight(name, "\x00")))
			if chain = own; table != "nat" {
				chain = ""
			}
			chains[string(name)] = chain
		}
		return chain
	}
	return ""
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

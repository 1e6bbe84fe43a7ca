package nft

import (
	"bytes"
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// maxKey is the longest key in bytes: two addresses of IPv6, a protocol and a port.
const maxKey = 16 + 4 + 4 + 16

// key is an element's key, the end of its range, or its value.
type key struct {
	bytes [maxKey]byte
	n     int
}

func (k *key) port(n uint16) {
	binary.BigEndian.PutUint16(k.bytes[k.n:], n)
	k.n += 4
}

// addr appends an address and reports whether it is of the family.
func (k *key) addr(a netip.Addr, f kernel.Family) bool {
	switch {
	case !a.IsValid() || kernel.FamilyOf(a) != f:
		return false
	case a.Is4():
		p := a.As4()
		k.n += copy(k.bytes[k.n:], p[:])
	default:
		p := a.As16()
		k.n += copy(k.bytes[k.n:], p[:])
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
			k.bytes[k.n] = byte(e.Proto)
			k.n += 4
		case portField:
			k.port(e.Port)
		case slotField:
			binary.NativeEndian.PutUint32(k.bytes[k.n:], uint32(e.Slot))
			k.n += 4
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
	return k, hasAddr == e.Addr.IsValid() && hasProto == (e.Proto != 0) && s.class == (e.Goto != "") &&
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
	case s.class && added:
		to := key{n: classSize}
		binary.NativeEndian.PutUint32(to.bytes[:], classOf(e.Goto))
		putKey(b, unix.NFTA_SET_ELEM_DATA, &to)
	case s.to != nil && added:
		var to key
		if !to.addr(e.Second.Addr(), f) || !e.Second.IsSingleIP() {
			return false
		}
		to.port(e.ToPort)
		putKey(b, unix.NFTA_SET_ELEM_DATA, &to)
	}
	b.EndNest(elem)
	return true
}

// goTo is NFT_GOTO as it is sent.
const goTo = 1<<32 + unix.NFT_GOTO

// decode reads an element. ok is false if it is none that encode makes: another program added it. chains has the chain
// of each class.
func (s shape) decode(a nl.Attrs, f kernel.Family, chains map[uint32]string) (e kernel.Entry, ok bool, err error) {
	var from, to, data []byte
	odd := false
	for a.Next() {
		switch a.Type() {
		case unix.NFTA_SET_ELEM_KEY:
			from = value(a.Nested())
		case elemKeyEnd:
			to = value(a.Nested())
		case unix.NFTA_SET_ELEM_DATA:
			data = value(a.Nested())
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
	if s.class {
		e.Goto = chains[binary.NativeEndian.Uint32(data)]
	}
	return e, s.class == (e.Goto != "") && (s.to != nil) == (e.ToPort != 0), nil
}

// gotoOf returns the chain that a verdict goes to, "" for another verdict.
func gotoOf(a nl.Attrs) string {
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
		_, chain, _ := cutChain(string(bytes.TrimRight(name, "\x00")))
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

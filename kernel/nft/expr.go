package nft

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel/nl"
)

// expr is an expression of a rule: its name and its attributes.
type expr struct {
	name  string
	attrs []attr
}

// attr is an attribute with a value, or with others nested in it.
type attr struct {
	typ    uint16
	value  []byte
	nested []attr
}

// num is a number in network byte order, which most attributes of nf_tables have.
func num(typ uint16, n uint32) attr {
	return attr{typ: typ, value: binary.BigEndian.AppendUint32(nil, n)}
}

func num64(typ uint16, n uint64) attr {
	return attr{typ: typ, value: binary.BigEndian.AppendUint64(nil, n)}
}

func octet(typ uint16, n uint8) attr { return attr{typ: typ, value: []byte{n}} }

func text(typ uint16, s string) attr { return attr{typ: typ, value: append([]byte(s), 0)} }

func nest(typ uint16, in ...attr) attr { return attr{typ: typ, nested: in} }

// data is a constant.
func data(typ uint16, value []byte) attr {
	return nest(typ, attr{typ: unix.NFTA_DATA_VALUE, value: value})
}

// reg is the number of the n-th register of 32 bits as the kernel prints it: where one of 128 bits begins it has that
// one's number.
func reg(n uint32) uint32 {
	if n%4 == 0 {
		return unix.NFT_REG_1 + n/4
	}
	return unix.NFT_REG32_00 + n
}

// putExprs appends the expressions of a rule.
func putExprs(b *nl.Batch, typ uint16, all []expr) {
	list := b.Nest(typ)
	for _, e := range all {
		elem := b.Nest(unix.NFTA_LIST_ELEM)
		b.Text(unix.NFTA_EXPR_NAME, e.name)
		in := b.Nest(unix.NFTA_EXPR_DATA)
		putAttrs(b, e.attrs)
		b.EndNest(in)
		b.EndNest(elem)
	}
	b.EndNest(list)
}

func putAttrs(b *nl.Batch, all []attr) {
	for _, a := range all {
		if a.nested == nil {
			b.Attr(a.typ, a.value)
			continue
		}
		in := b.Nest(a.typ)
		putAttrs(b, a.nested)
		b.EndNest(in)
	}
}

// sameExprs reports whether the kernel has these expressions.
func sameExprs(want []expr, list nl.Attrs) bool {
	for list.Next() {
		if len(want) == 0 || !want[0].same(list.Nested()) {
			return false
		}
		want = want[1:]
	}
	return len(want) == 0 && list.Err() == nil
}

func (e *expr) same(have nl.Attrs) bool {
	named, equal := false, len(e.attrs) == 0
	for have.Next() {
		switch have.Type() {
		case unix.NFTA_EXPR_NAME:
			named = have.Text() == e.name
		case unix.NFTA_EXPR_DATA:
			equal = e.name == "counter" || sameAttrs(e.attrs, have.Nested())
		}
	}
	return named && equal && have.Err() == nil
}

// sameAttrs reports whether the kernel has these attributes. Those that it adds must be zero: newer kernels print more.
func sameAttrs(want []attr, have nl.Attrs) bool {
	found := 0
	for have.Next() {
		w := find(want, have.Type())
		switch {
		case w == nil:
			if len(bytes.Trim(have.Bytes(), "\x00")) > 0 {
				return false
			}
			continue
		case w.nested != nil:
			if !sameAttrs(w.nested, have.Nested()) {
				return false
			}
		case !bytes.Equal(w.value, have.Bytes()):
			return false
		}
		found++
	}
	return found == len(want) && have.Err() == nil
}

func find(in []attr, typ uint16) *attr {
	for i := range in {
		if in[i].typ == typ {
			return &in[i]
		}
	}
	return nil
}

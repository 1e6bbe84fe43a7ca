package iptables

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel/nl"
)

// mostElements is how many elements of a set are compared. A larger one counts as not read.
const mostElements = 1000

// element is a value of a set, or a range of them, and what a verdict map has for it. The one for all other values
// has no value.
type element struct {
	from, to []byte
	verdict  expr.Verdict

	end bool // it is no element: the interval before it ends below its value
}

// elements returns the elements of a set, sorted; ok is false if they are not known, or change without a change of
// rules.
func (r *nftReader) elements(name string) (list []element, ok bool) {
	t := &nftables.Table{Name: r.table.name, Family: r.table.family}
	set, err := r.conn.GetSetByName(t, name)
	if err != nil || set.Dynamic || set.HasTimeout || set.Concatenation || !set.Anonymous && !r.deep {
		return nil, false
	}
	all, err := r.dumpElements(name)
	if err != nil || len(all) > mostElements {
		return nil, false
	}
	slices.SortStableFunc(all, func(a, b element) int {
		ends := map[bool]int{true: -1}
		return cmp.Or(bytes.Compare(a.from, b.from), ends[a.end]-ends[b.end])
	})
	for _, e := range all {
		switch n := len(list); {
		case e.end && n > 0:
			list[n-1].to = before(e.from)
		case e.end: // what is below the first interval ends
		case set.Interval && len(e.from) > 0:
			e.to = bytes.Repeat([]byte{0xff}, len(e.from))
			list = append(list, e)
		default:
			list = append(list, e)
		}
	}
	return list, true
}

// dumpElements reads the elements of a set. google/nftables does not tell their verdicts.
func (r *nftReader) dumpElements(set string) (all []element, err error) {
	ask := func(b *nl.Batch) {
		b.Text(unix.NFTA_SET_ELEM_LIST_TABLE, r.table.name)
		b.Text(unix.NFTA_SET_ELEM_LIST_SET, set)
	}
	s := &nftStamp{conn: r.stamp.conn, family: uint8(r.table.family)}
	err = s.dump(unix.NFT_MSG_GETSETELEM, ask, func() { all = nil }, func(_ uint8, a nl.Attrs) error {
		for a.Next() {
			if a.Type() != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
				continue
			}
			list := a.Nested()
			for list.Next() {
				e, err := parseElement(list.Nested())
				if err != nil {
					return err
				}
				all = append(all, e)
			}
			if err := list.Err(); err != nil {
				return err
			}
		}
		return a.Err()
	})
	return all, err
}

func parseElement(a nl.Attrs) (e element, err error) {
	for a.Next() {
		switch a.Type() {
		case unix.NFTA_SET_ELEM_KEY:
			value := a.Nested()
			for value.Next() {
				e.from = bytes.Clone(value.Bytes())
			}
			e.to = e.from
		case unix.NFTA_SET_ELEM_FLAGS:
			e.end = a.U32BE()&unix.NFT_SET_ELEM_INTERVAL_END != 0
		case unix.NFTA_SET_ELEM_DATA:
			data := a.Nested()
			for data.Next() {
				if data.Type() == unix.NFTA_DATA_VERDICT {
					e.verdict = parseVerdict(data.Nested())
				}
			}
		}
	}
	return e, a.Err()
}

func parseVerdict(a nl.Attrs) (v expr.Verdict) {
	for a.Next() {
		switch a.Type() {
		case unix.NFTA_VERDICT_CODE:
			v.Kind = expr.VerdictKind(int32(a.U32BE()))
		case unix.NFTA_VERDICT_CHAIN:
			v.Chain = a.Text()
		}
	}
	return v
}

// before returns the value before one, in network byte order.
func before(key []byte) []byte {
	b := bytes.Clone(key)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i]--; b[i] != 0xff {
			break
		}
	}
	return b
}

// after returns the value after one, in network byte order.
func after(key []byte) []byte {
	b := bytes.Clone(key)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i]++; b[i] != 0 {
			break
		}
	}
	return b
}

// number reads an integer of up to 4 bytes.
func number(b []byte, order binary.ByteOrder) (uint32, error) {
	switch len(b) {
	case 1:
		return uint32(b[0]), nil
	case 2:
		return uint32(order.Uint16(b)), nil
	case 4:
		return order.Uint32(b), nil
	}
	return 0, fmt.Errorf("%d bytes", len(b))
}

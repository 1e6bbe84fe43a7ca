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
	raw, err := r.conn.GetSetElements(set)
	if err != nil || len(raw) > mostElements {
		return nil, false
	}
	return inOrder(raw, set.Interval), true
}

// inOrder returns the elements of a set in the order of their values. That for all other values, which the library
// gives no key, is the last: in front it would take every packet.
func inOrder(raw []nftables.SetElement, interval bool) (list []element) {
	var all, others []element
	for _, e := range raw { // of a verdict the library returns the attributes
		el := element{e.Key, e.Key, parseVerdict(nl.ParseAttrs(e.Val)), e.IntervalEnd}
		if len(e.Key) == 0 {
			others = append(others, el)
		} else {
			all = append(all, el)
		}
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
		case interval:
			e.to = bytes.Repeat([]byte{0xff}, len(e.from))
			list = append(list, e)
		default:
			list = append(list, e)
		}
	}
	return append(list, others...)
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

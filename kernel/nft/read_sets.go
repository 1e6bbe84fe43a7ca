package nft

import (
	"math"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// sets lists our sets of a family, sorted.
func (t *Table) sets(f kernel.Family) (all []kernel.Set, err error) {
	ask := func(b *nl.Batch) { b.Text(unix.NFTA_SET_TABLE, t.table) }
	err = t.dump(unix.NFT_MSG_GETSET, f, ask, func() { all = all[:0] }, func(a nl.Attrs) error {
		var name string
		var flags, typ, size, dataType, dataSize uint32
		for a.Next() {
			switch a.Type() {
			case unix.NFTA_SET_NAME:
				name = a.Text()
			case unix.NFTA_SET_FLAGS:
				flags = a.U32BE()
			case unix.NFTA_SET_KEY_TYPE:
				typ = a.U32BE()
			case unix.NFTA_SET_KEY_LEN:
				size = a.U32BE()
			case unix.NFTA_SET_DATA_TYPE:
				dataType = a.U32BE()
			case unix.NFTA_SET_DATA_LEN:
				dataSize = a.U32BE()
			}
		}
		family, spec, ok := t.names.SetSpec(name)
		if !ok || spec.Limits != t.limits {
			return a.Err()
		}
		s, shape := kernel.Set{Name: name, Type: spec.Type, Family: f}, shapes[spec.Type]
		if spec.Type != kernel.BitmapPort {
			s.MaxElem = math.MaxUint32
		}
		if family != f || flags != shape.flags() || typ != keyType(shape.fields, f) ||
			size != uint32(keySize(shape.fields, f)) || dataType != shape.dataType(f) ||
			shape.to != nil && dataSize != shape.dataSize(f) {
			s.Type = changed
		}
		all = append(all, s)
		return a.Err()
	})
	return all, err
}

// elements appends the entries of a set, sorted. The kernel lists them in the order of its hash. A set with an element
// that is no entry gets another type.
func (t *Table) elements(s *kernel.Set, all []kernel.Entry) ([]kernel.Entry, error) {
	if s.Type == changed || s.Type.ByPackets() {
		return all, nil
	}
	start, odd := len(all), false
	err := t.eachElement(*s, func() { all, odd = all[:start], false }, func(e kernel.Entry, ok bool) {
		all, odd = append(all, e), odd || !ok
	})
	if odd {
		s.Type = changed
		return all[:start], err
	}
	slices.SortFunc(all[start:], compareMembers)
	return all, err
}

// sameElements reports whether a set has these entries.
func (t *Table) sameElements(s kernel.Set, want kernel.Entries) (bool, error) {
	if s.Type.ByPackets() {
		return true, nil
	}
	if t.full {
		return t.last.entries.Of(s.Name).Equal(want), nil
	}
	same, n := true, 0
	err := t.eachElement(s, func() { same, n = true, 0 }, func(e kernel.Entry, ok bool) {
		w, found := want.Find(e)
		same = same && ok && found && w == e
		n++
	})
	return same && n == want.Len(), err
}

// eachElement lists the elements of a set. ok is false for one that is no entry.
func (t *Table) eachElement(s kernel.Set, restart func(), each func(e kernel.Entry, ok bool)) error {
	shape, chains := shapes[s.Type], t.last.classes[s.Family]
	if shape.network {
		return t.eachNetwork(s, each)
	}
	return t.eachRaw(s, restart, func(a nl.Attrs) error {
		e, ok, err := shape.decode(a, s.Family, chains)
		if err == nil {
			e.Set = s.Name
			each(e, ok)
		}
		return err
	})
}

// eachRaw lists the elements of a set as the kernel has them.
func (t *Table) eachRaw(s kernel.Set, restart func(), each func(nl.Attrs) error) error {
	ask := func(b *nl.Batch) {
		b.Text(unix.NFTA_SET_ELEM_LIST_TABLE, t.table)
		b.Text(unix.NFTA_SET_ELEM_LIST_SET, s.Name)
	}
	return t.dump(unix.NFT_MSG_GETSETELEM, s.Family, ask, restart, func(a nl.Attrs) error {
		for a.Next() {
			if a.Type() != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
				continue
			}
			list := a.Nested()
			for list.Next() {
				if err := each(list.Nested()); err != nil {
					return err
				}
			}
			if list.Err() != nil {
				return list.Err()
			}
		}
		return a.Err()
	})
}

// compareMembers is kernel.Entry.Compare for entries of one set, most of which differ in their addresses.
func compareMembers(a, b kernel.Entry) int {
	if a.Addr != b.Addr {
		return a.Addr.Compare(b.Addr)
	}
	return a.Compare(b)
}

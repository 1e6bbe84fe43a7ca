package ipset

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// Read returns the sets with our names and their entries, both sorted as in kernel.State. A set of
// ours with a type that we do not use has that type and no entries.
//
// It first reads the headers of all sets, then the entries of ours, set by set, without empty ones.
// A dump of everything would bring foreign blocklists, which can be far larger than all our sets.
func (s *Sets) Read(names kernel.Names) ([]kernel.Set, kernel.Entries, error) {
	heads, err := s.heads(names)
	if err != nil {
		return nil, kernel.Entries{}, err
	}
	room := 0
	for _, h := range heads {
		room += int(h.elements)
	}
	sets := make([]kernel.Set, 0, len(heads))
	entries := make([]kernel.Entry, 0, room)
	for _, h := range heads {
		if !h.empty() {
			entries, err = s.members(h.set, entries)
			if errors.Is(err, unix.ENOENT) {
				continue // destroyed after its header was read
			}
			if err != nil {
				return nil, kernel.Entries{}, fmt.Errorf("listing ipset %s: %w", h.set.Name, err)
			}
		}
		sets = append(sets, h.set)
	}
	return sets, kernel.EntriesOf(entries), nil
}

// heads reads the headers of our sets, sorted by name.
func (s *Sets) heads(names kernel.Names) ([]head, error) {
	s.batch.Reset()
	begin(&s.batch, cmdList, 0)
	s.batch.U32BE(attrFlags, flagListHeader)
	s.batch.End()
	var heads []head
	restart := func() { heads = heads[:0] }
	err := s.conn.Dump(&s.batch, restart, func(p []byte) error {
		h, err := decodeHead(p, names)
		if err == nil && h.set.Name != "" {
			heads = append(heads, h)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing ipsets: %w", err)
	}
	kernel.SortFunc(heads, func(a, b head) int { return strings.Compare(a.set.Name, b.set.Name) })
	return heads, nil
}

// members appends the entries of one set, sorted. The kernel lists them in the order of its hash.
func (s *Sets) members(set kernel.Set, entries []kernel.Entry) ([]kernel.Entry, error) {
	if set.Family == kernel.IPv4 && set.Type.Base() != kernel.BitmapPort {
		return s.packedMembers(set.Name, entries)
	}
	start := len(entries)
	err := s.list(set.Name, func() { entries = entries[:start] }, func(member []byte) error {
		e, ok, err := decodeEntry(member)
		if ok {
			e.Set = set.Name
			entries = append(entries, e)
		}
		return err
	})
	if err != nil {
		return entries[:start], err
	}
	slices.SortFunc(entries[start:], compareMembers)
	return entries, nil
}

// compareMembers is kernel.Entry.Compare for entries of one set, most of which differ in their
// addresses.
func compareMembers(a, b kernel.Entry) int {
	if a.Addr != b.Addr {
		return a.Addr.Compare(b.Addr)
	}
	return a.Compare(b)
}

// packedMembers is members for IPv4 addresses.
func (s *Sets) packedMembers(set string, entries []kernel.Entry) ([]kernel.Entry, error) {
	s.packed = s.packed[:0]
	var common shape
	err := s.list(set, func() { s.packed = s.packed[:0] }, func(member []byte) error {
		if p, ok := common.pack(member); ok {
			s.packed = append(s.packed, p)
			return nil
		}
		e, ok, err := decodeEntry(member)
		switch {
		case err != nil || !ok:
			return err
		case !e.Addr.Is4() || e.Second.IsValid() && !e.Second.Addr().Is4():
			return fmt.Errorf("entry %s is not of the set's family", e.Member())
		}
		s.packed = append(s.packed, pack(&e))
		common = learn(member)
		return nil
	})
	if err != nil {
		return entries, err
	}
	s.packed, s.spare = sortPacked(s.packed, s.spare)
	for _, p := range s.packed {
		entries = append(entries, p.entry(set))
	}
	return entries, nil
}

// list dumps the entries of one set.
func (s *Sets) list(set string, restart func(), each func(member []byte) error) error {
	s.batch.Reset()
	begin(&s.batch, cmdList, 0)
	s.batch.Text(attrSetName, set)
	s.batch.End()
	return s.conn.Dump(&s.batch, restart, func(p []byte) error { return eachMember(p, each) })
}

// payload removes the netfilter header from a message.
func payload(p []byte) (nl.Attrs, error) {
	if len(p) < sizeofNfgenmsg {
		return nl.Attrs{}, fmt.Errorf("netfilter message of %d bytes", len(p))
	}
	return nl.ParseAttrs(p[sizeofNfgenmsg:]), nil
}

const sizeofNfgenmsg = 4

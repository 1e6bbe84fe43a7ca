package ipset

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// head is the header of a set.
type head struct {
	set      kernel.Set
	elements uint32 // number of entries, if counted
	counted  bool   // false before Linux 4.9, which sends no number
}

// empty reports whether there is nothing to read.
func (h head) empty() bool { return h.counted && h.elements == 0 || !h.readable() }

// readable reports whether the set has a type whose entries are read.
func (h head) readable() bool { return slices.Contains(types, h.set.Type.Base()) }

// decodeHead decodes the header of a set of ours. For a foreign set the result is zero.
func decodeHead(p []byte, names kernel.Names) (h head, err error) {
	a, err := payload(p)
	if err != nil {
		return head{}, err
	}
	var d headDetails
	for a.Next() {
		switch a.Type() {
		case attrSetName:
			if h.set.Name = a.Text(); !names.OwnsSet(h.set.Name) {
				return head{}, nil
			}
		case attrTypeName:
			h.set.Type = kernel.SetType(a.Text())
		case attrFamily:
			h.set.Family = kernel.Family(a.U8())
		case attrData:
			if err := h.decodeDetails(a.Nested(), &d); err != nil {
				return head{}, err
			}
		}
	}
	if a.Err() != nil {
		return head{}, a.Err()
	}
	h.set.Options = d.options.String()
	if strings.HasPrefix(string(h.set.Type), "bitmap:") {
		h.bitmap(d.lo, d.hi, names)
	}
	if family, spec, ok := names.SetSpec(h.set.Name); ok && (spec.Type != h.set.Type || family != h.set.Family) {
		h.set.References = d.references
	}
	return h, nil
}

// headDetails has parts of a header whose meaning depends on other parts.
type headDetails struct {
	lo, hi     uint16 // range of a bitmap
	options    kernel.SetOptions
	references uint32
}

func (h *head) decodeDetails(a nl.Attrs, d *headDetails) error {
	for a.Next() {
		switch a.Type() {
		case attrMaxElem:
			h.set.MaxElem = a.U32BE()
		case attrElements:
			h.elements, h.counted = a.U32BE(), true
		case attrPort:
			d.lo = a.U16BE()
		case attrPortTo:
			d.hi = a.U16BE()
		case attrTimeout:
			d.options.Timeout, d.options.HasTimeout = a.U32BE(), true
		case attrNetmask:
			d.options.Netmask = a.U8()
		case attrFlagsADT:
			flags := a.U32BE()
			d.options.Counters, d.options.Comment = flags&flagCounters != 0, flags&flagComment != 0
			d.options.ForceAdd, d.options.SKBInfo = flags&flagForceAdd != 0, flags&flagSKBInfo != 0
		case attrReferences:
			d.references = a.U32BE()
		}
	}
	return a.Err()
}

// bitmap sets the family of a bitmap from its name, because the kernel does not know it. A bitmap
// with a smaller range has no room for every port. Its type says so, and the plan replaces it.
func (h *head) bitmap(lo, hi uint16, names kernel.Names) {
	h.set.MaxElem = 0
	if f, _, ok := names.SetSpec(h.set.Name); ok {
		h.set.Family = f
	} else {
		h.set.Family = kernel.IPv4
	}
	if h.set.Type == kernel.BitmapPort && (lo != 0 || hi != 1<<16-1) {
		h.set.Type = kernel.SetType(fmt.Sprintf("%s range %d-%d", kernel.BitmapPort, lo, hi))
	}
}

// eachMember calls each with the attributes of every entry in a message.
func eachMember(p []byte, each func(member []byte) error) error {
	a, err := payload(p)
	if err != nil {
		return err
	}
	for a.Next() {
		if a.Type() != attrADT {
			continue
		}
		members := a.Nested()
		for members.Next() {
			if members.Type() != attrData {
				continue
			}
			if err := each(members.Bytes()); err != nil {
				return err
			}
		}
		if members.Err() != nil {
			return members.Err()
		}
	}
	return a.Err()
}

// decodeEntry decodes one entry. ok is false for an exception (nomatch), which only a person makes.
// Adding the entry again makes it match.
func decodeEntry(member []byte) (e kernel.Entry, ok bool, err error) {
	a := nl.ParseAttrs(member)
	var second netip.Addr
	bits := -1
	ok = true
	for a.Next() {
		switch a.Type() {
		case attrIP:
			e.Addr, err = decodeAddr(a.Nested())
		case attrPort:
			e.Port = a.U16BE()
		case attrProto:
			e.Proto = kernel.Proto(a.U8())
		case attrIP2:
			second, err = decodeAddr(a.Nested())
		case attrCIDR2:
			bits = int(a.U8())
		case attrFlagsADT:
			ok = a.U32BE()&flagNoMatch == 0
		}
		if err != nil {
			return kernel.Entry{}, false, err
		}
	}
	if a.Err() != nil {
		return kernel.Entry{}, false, a.Err()
	}
	if second.IsValid() {
		if bits < 0 {
			bits = second.BitLen()
		}
		if e.Second = netip.PrefixFrom(second, bits); !e.Second.IsValid() {
			return kernel.Entry{}, false, fmt.Errorf("ipset entry: %s has no %d bits", second, bits)
		}
	}
	return e, ok, nil
}

func decodeAddr(a nl.Attrs) (netip.Addr, error) {
	if !a.Next() {
		if a.Err() != nil {
			return netip.Addr{}, a.Err()
		}
		return netip.Addr{}, fmt.Errorf("ipset address: empty")
	}
	p := a.Bytes()
	switch {
	case a.Type() == attrIPv4 && len(p) == 4:
		return netip.AddrFrom4([4]byte(p)), nil
	case a.Type() == attrIPv6 && len(p) == 16:
		return netip.AddrFrom16([16]byte(p)), nil
	}
	return netip.Addr{}, fmt.Errorf("ipset address: type %d of %d bytes", a.Type(), len(p))
}

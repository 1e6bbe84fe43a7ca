package nft

import (
	"fmt"

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
// bits. Of a map the value is a class or a concatenation.
type shape struct {
	fields   []field
	interval bool    // the last field is a prefix
	network  bool    // each entry is a range, of two elements
	meter    bool    // packets add elements
	expires  bool    // and these are removed in time
	class    bool    // the value is the number of a chain
	to       []field // secondField and the port
}

var shapes = map[kernel.SetType]shape{
	kernel.HashIP:        {fields: []field{addrField}},
	kernel.HashIPPort:    {fields: []field{addrField, protoField, portField}},
	kernel.HashIPPortIP:  {fields: []field{addrField, protoField, portField, secondField}},
	kernel.HashIPPortNet: {fields: []field{addrField, protoField, portField, secondField}, interval: true},
	kernel.BitmapPort:    {fields: []field{portField}},
	kernel.MapIPPort:     {fields: []field{addrField, protoField, portField}, class: true},
	kernel.MapIPPortSlot: {fields: []field{addrField, protoField, portField, slotField}, to: endpoint},
	kernel.HashNet:       {fields: []field{addrField}, network: true},
	kernel.Meter:         {fields: []field{addrField}, meter: true, expires: true},
	kernel.Tally:         {fields: []field{addrField}, meter: true},
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
	case s.network:
		return unix.NFT_SET_INTERVAL
	case s.expires:
		return unix.NFT_SET_EVAL | unix.NFT_SET_TIMEOUT
	case s.meter: // the kernel takes no count of connections in a set with a timeout
		return unix.NFT_SET_EVAL
	case s.isMap():
		return unix.NFT_SET_MAP
	}
	return 0
}

func (s shape) isMap() bool { return s.class || s.to != nil }

// dataType and dataSize are the type and the length of values, 0 without them.
func (s shape) dataType(f kernel.Family) uint32 {
	if s.class {
		return classID
	}
	return keyType(s.to, f)
}

func (s shape) dataSize(f kernel.Family) uint32 {
	switch {
	case s.class:
		return classSize
	case s.to != nil:
		return uint32(keySize(s.to, f))
	}
	return 0
}

// counts reports whether the elements of a set to be made count.
func (s shape) counts(set kernel.Set) bool { return s.to != nil && set.Size <= maxCounted }

// putSet adds the message that creates a set. Only a meter has a size. Others grow as needed.
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
		b.U32BE(unix.NFTA_SET_DATA_LEN, shape.dataSize(s.Family))
	}
	if shape.class {
		hostOrder(b, dataOrder)
	}
	if shape.counts(s) {
		putCounter(b)
	}
	if shape.meter {
		desc := b.Nest(unix.NFTA_SET_DESC)
		b.U32BE(unix.NFTA_SET_DESC_SIZE, s.MaxElem)
		b.EndNest(desc)
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

package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// The map of frontends has numbers as values, and a second map, CLASSES, the chain of each number. For whenever a rule
// or an element that leads to a chain is added, the kernel walks all such elements, and the rules behind each: with
// 5,000 frontends that took 1 ms.
//
// No state has CLASSES. A chain of a class has its element there as long as it exists. Its number is a hash of its
// name, so an element of a frontend can be written without a look at the others.

// classes is the name of the map.
func classes(n kernel.Names, f kernel.Family) string { return n.Set(f, "CLASSES") }

// classOf is the number of a chain.
func classOf(chain string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(chain))
	return h.Sum32()
}

// classText is a class as nft writes a class id.
func classText(n uint32) string { return fmt.Sprintf("%x:%x", n>>16, n&0xffff) }

func isClass(n kernel.Names, c kernel.Chain) bool {
	return c.Table == "nat" && strings.HasPrefix(c.Name, n.Balancer("")) ||
		c.Table == kernel.LimitsTable && strings.HasPrefix(c.Name, n.Clients(""))
}

// classless and misled are rules in front of those of a chain that has no element in CLASSES, or whose element leads to
// something else. Apply mends that.
const (
	classless = unread + " class"
	misled    = unread + " goto"
)

// putClasses adds the message that creates the map unless it is there.
func putClasses(b *nl.Batch, table string, n kernel.Names, f kernel.Family, id uint32) {
	begin(b, unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE, f)
	b.Text(unix.NFTA_SET_TABLE, table)
	b.Text(unix.NFTA_SET_NAME, classes(n, f))
	b.U32BE(unix.NFTA_SET_ID, id)
	b.U32BE(unix.NFTA_SET_FLAGS, unix.NFT_SET_MAP)
	b.U32BE(unix.NFTA_SET_KEY_TYPE, classID)
	b.U32BE(unix.NFTA_SET_KEY_LEN, classSize)
	b.U32BE(unix.NFTA_SET_DATA_TYPE, typeOfVerdict)
	hostOrder(b, keyOrder)
	b.End()
}

// hostOrder adds what tells the program nft that keys or values are in the order of the host. Without it, nft shows
// other numbers.
func hostOrder(b *nl.Batch, of byte) {
	const host = 1 // BYTEORDER_HOST_ENDIAN
	b.Attr(unix.NFTA_SET_USERDATA, binary.NativeEndian.AppendUint32([]byte{of, 4}, host))
}

// What is in the user data of a set: NFTNL_UDATA_SET_KEYBYTEORDER and NFTNL_UDATA_SET_DATABYTEORDER.
const keyOrder, dataOrder = 0, 1

const classSize = 4 // bytes

// class adds the message that adds or removes the element of a chain.
func (x *transaction) class(typ uint16, i int) {
	c, flags := x.ops[i].Object.(kernel.Chain), uint16(0)
	if typ == unix.NFT_MSG_NEWSETELEM {
		flags = unix.NLM_F_CREATE
	}
	x.begin(typ, flags, c.Family)
	x.batch.Text(unix.NFTA_SET_ELEM_LIST_TABLE, x.table)
	x.batch.Text(unix.NFTA_SET_ELEM_LIST_SET, classes(x.names, c.Family))
	list := x.batch.Nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
	elem := x.batch.Nest(unix.NFTA_LIST_ELEM)
	from := key{n: classSize}
	binary.NativeEndian.PutUint32(from.bytes[:], classOf(c.Name))
	putKey(&x.batch, unix.NFTA_SET_ELEM_KEY, &from)
	if typ == unix.NFT_MSG_NEWSETELEM {
		data := x.batch.Nest(unix.NFTA_SET_ELEM_DATA)
		verdict := x.batch.Nest(unix.NFTA_DATA_VERDICT)
		x.batch.U32BE(unix.NFTA_VERDICT_CODE, goTo)
		x.batch.Text(unix.NFTA_VERDICT_CHAIN, chainName(c.Table, c.Name))
		x.batch.EndNest(verdict)
		x.batch.EndNest(data)
	}
	x.batch.EndNest(elem)
	x.batch.EndNest(list)
	x.end(i)
}

// classed reports whether an op is about a chain of a class, and how the chain's element was read.
func (x *transaction) classed(i int) (is, there, right bool) {
	op := &x.ops[i]
	was, known := op.Was.(kernel.Chain)
	there = known && !strings.HasPrefix(was.Rules, classless)
	return isClass(x.names, op.Object.(kernel.Chain)), there, there && !strings.HasPrefix(was.Rules, misled)
}

// listClasses returns the chain of each number, "" where an element leads to something else.
func (t *Table) listClasses(f kernel.Family) (all map[uint32]string, err error) {
	ask := func(b *nl.Batch) {
		b.Text(unix.NFTA_SET_ELEM_LIST_TABLE, t.table)
		b.Text(unix.NFTA_SET_ELEM_LIST_SET, classes(t.names, f))
	}
	restart := func() { all = make(map[uint32]string) }
	restart()
	err = t.dump(unix.NFT_MSG_GETSETELEM, f, ask, restart, func(a nl.Attrs) error {
		for a.Next() {
			if a.Type() != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
				continue
			}
			list := a.Nested()
			for list.Next() {
				var n []byte
				chain := ""
				for e := list.Nested(); e.Next(); {
					switch e.Type() {
					case unix.NFTA_SET_ELEM_KEY:
						n = value(e.Nested())
					case unix.NFTA_SET_ELEM_DATA:
						chain = gotoOf(e.Nested())
					}
				}
				if len(n) == classSize {
					all[binary.NativeEndian.Uint32(n)] = chain
				}
			}
			if list.Err() != nil {
				return list.Err()
			}
		}
		return a.Err()
	})
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	return all, err
}

// classRules is what comes in front of the rules of a chain that is not in CLASSES as it should be.
func classRules(name string, of map[uint32]string) []string {
	switch chain, there := of[classOf(name)]; {
	case !there:
		return []string{classless}
	case chain != name:
		return []string{misled}
	}
	return nil
}

package ipset

import (
	"fmt"
	"math/bits"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// maxName is the longest name of a set in bytes: IPSET_MAXNAMELEN less its NUL.
const maxName = 31

// netOrder marks numbers in network byte order. ipset rejects them without the mark.
const netOrder = unix.NLA_F_NET_BYTEORDER

func begin(b *nl.Batch, cmd, flags uint16) {
	b.Begin(unix.NFNL_SUBSYS_IPSET<<8|cmd, flags)
	b.Nfgen(unix.AF_INET)
	b.U8(attrProtocol, protocol)
}

func putCreate(b *nl.Batch, s kernel.Set) error {
	if len(s.Name) > maxName {
		return fmt.Errorf("%q is longer than %d characters", s.Name, maxName)
	}
	if s.Type.IsMap() {
		return fmt.Errorf("%s is a map, which only nftables has", s.Name)
	}
	bitmap := s.Type == kernel.BitmapPort
	family := uint8(s.Family)
	if bitmap {
		family = unix.AF_UNSPEC
	}
	begin(b, cmdCreate, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	b.Text(attrSetName, s.Name)
	b.Text(attrTypeName, string(s.Type))
	b.U8(attrRevision, revision(s.Type))
	b.U8(attrFamily, family)
	data := b.Nest(attrData)
	if bitmap {
		b.U16BE(attrPort|netOrder, 0)
		b.U16BE(attrPortTo|netOrder, 1<<16-1)
	} else {
		b.U32BE(attrHashSize|netOrder, hashSize(s.Size))
		b.U32BE(attrMaxElem|netOrder, s.MaxElem)
	}
	b.EndNest(data)
	b.End()
	return nil
}

// revision returns the revision of a type to ask for. The types with ports have SCTP since revision
// 1; 0 is the first of the others. Every kernel since 3.x has these. Every ipset tool can list
// them; it cannot list revisions newer than itself. Later revisions add counters, comments and
// bucket sizes, which are not used.
func revision(t kernel.SetType) uint8 {
	switch t {
	case kernel.HashIPPort, kernel.HashIPPortIP, kernel.HashIPPortNet:
		return 1
	}
	return 0
}

// Limits for the number of buckets that a set is created with. The fewest take 5 KiB. The most take
// 10 MiB, which bounds the memory of an empty set. The kernel enlarges a set that is filled beyond
// them.
const (
	minHashSize = 512
	maxHashSize = 1 << 20
)

// hashSize returns the number of buckets for a set that will soon hold this many entries: one or
// two for each. The kernel rehashes a small set at each doubling, which doubles the cost of filling
// it. An empty set takes 10 bytes for each bucket (VmallocUsed on Linux 6.18) and nothing for its
// capacity. `ipset create -exist` does not compare the number of buckets.
func hashSize(entries uint32) uint32 {
	if entries >= maxHashSize {
		return maxHashSize
	}
	return max(minHashSize, uint32(1)<<bits.Len32(entries))
}

// putDestroy appends a message that destroys a set. With NLM_F_EXCL newer kernels return ENOENT for
// a missing set, as older ones always do.
func putDestroy(b *nl.Batch, name string) {
	begin(b, cmdDestroy, unix.NLM_F_EXCL)
	b.Text(attrSetName, name)
	b.End()
}

func putSwap(b *nl.Batch, s kernel.Swap) {
	begin(b, cmdSwap, 0)
	b.Text(attrSetName, s.From)
	b.Text(attrSetName2, s.To)
	b.End()
}

// beginEntries opens a message that adds entries to a set or removes them. putEntry fills it.
// Without NLM_F_EXCL it is no error if an entry is already there, or already gone.
func beginEntries(b *nl.Batch, verb kernel.Verb, set string) (mark int) {
	cmd := uint16(cmdAdd)
	if verb == kernel.Remove {
		cmd = cmdDel
	}
	begin(b, cmd, 0)
	b.Text(attrSetName, set)
	b.U32(attrLine, 0) // required; an error returns its value
	return b.Nest(attrADT)
}

// putEntry writes the parts that the entry has. It need not know the type of the set, because the
// kernel rejects an entry that lacks a part.
func putEntry(b *nl.Batch, e *kernel.Entry) {
	data := b.Nest(attrData)
	if e.Addr.IsValid() {
		putAddr(b, attrIP, e.Addr)
	}
	if e.Proto != 0 {
		b.U8(attrProto, uint8(e.Proto))
	}
	if e.Proto != 0 || !e.Addr.IsValid() {
		b.U16BE(attrPort|netOrder, e.Port)
	}
	if e.Second.IsValid() {
		putAddr(b, attrIP2, e.Second.Addr())
		if !e.Second.IsSingleIP() {
			b.U8(attrCIDR2, uint8(e.Second.Bits()))
		}
	}
	b.EndNest(data)
}

func putAddr(b *nl.Batch, typ uint16, a netip.Addr) {
	nest := b.Nest(typ)
	if a.Is4() {
		b.U32BE(attrIPv4|netOrder, number(a))
	} else {
		b.Bytes16(attrIPv6|netOrder, a.As16())
	}
	b.EndNest(nest)
}

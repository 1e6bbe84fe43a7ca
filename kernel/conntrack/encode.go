package conntrack

import (
	"cmp"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// question selects entries of a family by the protocol of their original destination, and by its
// port and address if these are given. Protocol 0 selects all of the family.
type question struct {
	family kernel.Family
	addr   netip.Addr
	proto  kernel.Proto
	port   uint16
}

// about returns the narrowest question about the entries of a virtual server that kernels answer
// correctly. Linux 5.8 to 6.18 invert the comparison of IPv6 addresses and send all other entries
// (ctnetlink_filter_match_tuple). They compare only ports of TCP and UDP.
func about(v kernel.VirtualKey) question {
	q := question{family: v.Family(), proto: v.Proto}
	if q.family == kernel.IPv4 {
		q.addr = v.Addr
	}
	if q.proto == kernel.TCP || q.proto == kernel.UDP {
		q.port = v.Port
	}
	return q
}

// covers reports whether entries of a virtual server answer the question.
func (q question) covers(v kernel.VirtualKey) bool {
	return q.family == v.Family() && (q.proto == 0 || q == about(v))
}

func (q question) compare(o question) int {
	return cmp.Or(q.addr.Compare(o.addr), cmp.Compare(q.proto, o.proto), cmp.Compare(q.port, o.port))
}

func (q question) put(b *nl.Batch) {
	b.Begin(msgGet, 0)
	b.Nfgen(uint8(q.family))
	if q.proto != 0 {
		q.putFilter(b)
	}
	b.End()
}

func (q question) putFilter(b *nl.Batch) {
	fields := uint32(fieldProto)
	orig := b.Nest(attrTupleOrig)
	if q.addr.IsValid() {
		fields |= fieldDst
		addrs := b.Nest(attrTupleIP)
		b.Attr(attrIPv4Dst, q.addr.AsSlice())
		b.EndNest(addrs)
	}
	proto := b.Nest(attrTupleProto)
	b.U8(attrProto, uint8(q.proto))
	if q.port != 0 {
		fields |= fieldDstPort
		b.U16BE(attrDstPort, q.port)
	}
	b.EndNest(proto)
	b.EndNest(orig)
	filter := b.Nest(attrFilter)
	b.U32(attrFilterOrig, fields)
	b.EndNest(filter)
}

// putDelete appends a message that deletes one entry, identified by its reply tuple and its id. The
// tuple goes back as the kernel sent it, so the parts of a protocol or zone need not be understood.
//
// The id alone, or the id with the original tuple, is not enough. It is a hash of the entry's
// address in memory and its original tuple. If an entry goes and the client's next datagram makes a
// new one in its place, both can be the same, though the new entry leads elsewhere (seen on Linux
// 6.18). A message without a tuple would delete everything; decode returns no such entry.
func putDelete(b *nl.Batch, e entry) {
	b.Begin(msgDelete, 0)
	b.Nfgen(uint8(e.key.Virtual.Family()))
	b.Attr(attrTupleReply|unix.NLA_F_NESTED, e.reply)
	if e.zone != nil {
		b.Attr(attrZone, e.zone)
	}
	b.Attr(attrID, e.id)
	b.End()
}

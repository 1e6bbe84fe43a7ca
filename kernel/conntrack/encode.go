package conntrack

import (
	"cmp"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// question is what a dump is asked for: entries of a family whose original
// destination has this protocol and, as far as they are given, this port and
// address. Protocol 0 asks for all of the family.
type question struct {
	family kernel.Family
	addr   netip.Addr
	proto  kernel.Proto
	port   uint16
}

// about is the narrowest question for the entries of one virtual server that
// kernels answer rightly (ctnetlink_filter_match_tuple of Linux 5.8 to 6.18).
// They compare IPv6 addresses the wrong way round, and send all entries but
// those asked for; and they compare no ports but those of TCP and UDP.
func about(v kernel.VirtualKey) question {
	q := question{family: v.Family(), proto: v.Proto}
	if q.family == kernel.IPv4 {
		q.addr = v.Addr.Addr()
	}
	if q.proto == kernel.TCP || q.proto == kernel.UDP {
		q.port = v.Addr.Port()
	}
	return q
}

// covers says whether entries of a virtual server answer the question.
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

// putDelete deletes one entry, found by its reply tuple and its id. The tuple
// goes back as the kernel gave it, so what is particular to a protocol or a zone
// need not be understood.
//
// The id alone, or with the original tuple, would not do: it is a hash of the
// entry's address in memory and its original tuple, and an entry that a client's
// next datagram makes in the place of one that has just gone has both, though it
// leads elsewhere (seen on Linux 6.18). A message without a tuple would delete
// everything; decode returns no such entry.
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

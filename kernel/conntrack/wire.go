package conntrack

import "golang.org/x/sys/unix"

// Messages: enum cntl_msg_types of linux/netfilter/nfnetlink_conntrack.h.
const (
	msgGet    = unix.NFNL_SUBSYS_CTNETLINK<<8 | 1
	msgDelete = unix.NFNL_SUBSYS_CTNETLINK<<8 | 2
	msgStats  = unix.NFNL_SUBSYS_CTNETLINK<<8 | 5
)

// sizeofNfgenmsg is the length of a netfilter netlink header (struct nfgenmsg).
const sizeofNfgenmsg = 4

// Attributes of an entry: enum ctattr_type of the same file.
const (
	attrTupleOrig  = 1
	attrTupleReply = 2
	attrID         = 12
	attrZone       = 18
	attrFilter     = 25
)

// Attributes of a tuple, its addresses and its protocol: enums ctattr_tuple,
// ctattr_ip and ctattr_l4proto.
const (
	attrTupleIP    = 1
	attrTupleProto = 2

	attrIPv4Src = 1
	attrIPv4Dst = 2
	attrIPv6Src = 3
	attrIPv6Dst = 4

	attrProto   = 1
	attrSrcPort = 2
	attrDstPort = 3
)

// attrFilterOrig says which fields of the original tuple a dump is filtered by:
// enum ctattr_filter.
const attrFilterOrig = 1

// Fields of a tuple: CTA_FILTER_F_* of the kernel's
// net/netfilter/nf_internals.h, which no header exports.
const (
	fieldDst     = 1 << 1
	fieldProto   = 1 << 3
	fieldDstPort = 1 << 5
)

package conntrack

import (
	linux "github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Numbers of linux/netfilter/nfnetlink_conntrack.h, from vishvananda/netlink. Those that it lacks
// are written here.

// Messages: enum cntl_msg_types.
const (
	msgGet    = unix.NFNL_SUBSYS_CTNETLINK<<8 | linux.IPCTNL_MSG_CT_GET
	msgDelete = unix.NFNL_SUBSYS_CTNETLINK<<8 | linux.IPCTNL_MSG_CT_DELETE
	msgStats  = unix.NFNL_SUBSYS_CTNETLINK<<8 | 5 // IPCTNL_MSG_CT_GET_STATS
)

// sizeofNfgenmsg is the length of a netfilter netlink header (struct nfgenmsg) in bytes.
const sizeofNfgenmsg = linux.SizeofNfgenmsg

// Attributes of an entry: enum ctattr_type.
const (
	attrTupleOrig  = linux.CTA_TUPLE_ORIG
	attrTupleReply = linux.CTA_TUPLE_REPLY
	attrID         = linux.CTA_ID
	attrZone       = linux.CTA_ZONE
	attrStatus     = linux.CTA_STATUS
	attrTimeout    = linux.CTA_TIMEOUT
	attrProtoInfo  = linux.CTA_PROTOINFO
	attrFilter     = 25 // CTA_FILTER
	attrStatusMask = 26 // CTA_STATUS_MASK
)

// Attributes of a tuple, its addresses and its protocol: enums ctattr_tuple, ctattr_ip and
// ctattr_l4proto.
const (
	attrTupleIP    = linux.CTA_TUPLE_IP
	attrTupleProto = linux.CTA_TUPLE_PROTO

	attrIPv4Src = linux.CTA_IP_V4_SRC
	attrIPv4Dst = linux.CTA_IP_V4_DST
	attrIPv6Src = linux.CTA_IP_V6_SRC
	attrIPv6Dst = linux.CTA_IP_V6_DST

	attrProto   = linux.CTA_PROTO_NUM
	attrSrcPort = linux.CTA_PROTO_SRC_PORT
	attrDstPort = linux.CTA_PROTO_DST_PORT
)

// attrFilterOrig holds the fields of the original tuple that filter a dump: enum ctattr_filter.
const attrFilterOrig = 1

// Fields of a tuple: CTA_FILTER_F_* of net/netfilter/nf_internals.h, which is not exported.
const (
	fieldDst     = 1 << 1
	fieldProto   = 1 << 3
	fieldDstPort = 1 << 5
)

// Attributes of a protocol's state: enums ctattr_protoinfo and ctattr_protoinfo_tcp.
const (
	attrProtoInfoTCP = linux.CTA_PROTOINFO_TCP
	attrTCPState     = linux.CTA_PROTOINFO_TCP_STATE
)

const (
	seenReply = 1 << 1 // IPS_SEEN_REPLY of linux/netfilter/nf_conntrack_common.h
	synSent   = 1      // TCP_CONNTRACK_SYN_SENT of linux/netfilter/nf_conntrack_tcp.h
)

package ipset

import linux "github.com/vishvananda/netlink/nl"

// Commands, attributes and flags of linux/netfilter/ipset/ip_set.h, from vishvananda/netlink. Only
// numbers that it lacks are written here.

// protocol is the version that every kernel since 2.6.39 speaks. Version 7 adds look-ups by index.
const protocol = linux.IPSET_PROTOCOL

const (
	cmdProtocol = linux.IPSET_CMD_PROTOCOL
	cmdCreate   = linux.IPSET_CMD_CREATE
	cmdDestroy  = linux.IPSET_CMD_DESTROY
	cmdSwap     = linux.IPSET_CMD_SWAP
	cmdList     = linux.IPSET_CMD_LIST
	cmdAdd      = linux.IPSET_CMD_ADD
	cmdDel      = linux.IPSET_CMD_DEL
	cmdType     = linux.IPSET_CMD_TYPE
)

// Attributes of a message.
const (
	attrProtocol = linux.IPSET_ATTR_PROTOCOL
	attrSetName  = linux.IPSET_ATTR_SETNAME
	attrTypeName = linux.IPSET_ATTR_TYPENAME
	attrSetName2 = linux.IPSET_ATTR_SETNAME2 // of a swap
	attrRevision = linux.IPSET_ATTR_REVISION
	attrFamily   = linux.IPSET_ATTR_FAMILY
	attrFlags    = linux.IPSET_ATTR_FLAGS
	attrData     = linux.IPSET_ATTR_DATA
	attrADT      = linux.IPSET_ATTR_ADT    // holds many attrData
	attrLine     = linux.IPSET_ATTR_LINENO // required with attrADT
)

// Attributes inside attrData.
const (
	attrIP         = linux.IPSET_ATTR_IP
	attrPort       = linux.IPSET_ATTR_PORT
	attrPortTo     = linux.IPSET_ATTR_PORT_TO
	attrTimeout    = linux.IPSET_ATTR_TIMEOUT
	attrProto      = linux.IPSET_ATTR_PROTO
	attrFlagsADT   = linux.IPSET_ATTR_CADT_FLAGS
	attrHashSize   = linux.IPSET_ATTR_HASHSIZE // from here to attrReferences: of a set's header
	attrMaxElem    = linux.IPSET_ATTR_MAXELEM
	attrNetmask    = linux.IPSET_ATTR_NETMASK
	attrElements   = linux.IPSET_ATTR_ELEMENTS
	attrReferences = linux.IPSET_ATTR_REFERENCES
	attrIP2        = linux.IPSET_ATTR_IP2 // from here on: of an entry
	attrCIDR2      = linux.IPSET_ATTR_CIDR2
)

// Attributes inside attrIP and attrIP2.
const (
	attrIPv4 = linux.IPSET_ATTR_IPADDR_IPV4
	attrIPv6 = linux.IPSET_ATTR_IPADDR_IPV6
)

const (
	flagListHeader = 1 << 2 // IPSET_FLAG_LIST_HEADER, attrFlags of cmdList: leave out the entries

	flagNoMatch  = linux.IPSET_FLAG_NOMATCH       // attrFlagsADT: the entry is an exception
	flagCounters = linux.IPSET_FLAG_WITH_COUNTERS // from here on: attrFlagsADT of a set's header
	flagComment  = linux.IPSET_FLAG_WITH_COMMENT
	flagForceAdd = linux.IPSET_FLAG_WITH_FORCEADD
	flagSKBInfo  = linux.IPSET_FLAG_WITH_SKBINFO
)

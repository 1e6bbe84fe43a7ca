package ipset

// Commands, attributes and flags of linux/netfilter/ipset/ip_set.h.

// protocol 6 is what every kernel since 2.6.39 speaks. 7 only adds asking for
// sets by index.
const protocol = 6

const (
	cmdProtocol = 1
	cmdCreate   = 2
	cmdDestroy  = 3
	cmdSwap     = 6
	cmdList     = 7
	cmdAdd      = 9
	cmdDel      = 10
	cmdType     = 13
)

// Attributes of a message.
const (
	attrProtocol = 1
	attrSetName  = 2
	attrTypeName = 3
	attrSetName2 = 3 // of a swap
	attrRevision = 4
	attrFamily   = 5
	attrFlags    = 6
	attrData     = 7
	attrADT      = 8 // many attrData
	attrLine     = 9 // goes with attrADT
)

// Attributes inside attrData.
const (
	attrIP         = 1
	attrPort       = 4
	attrPortTo     = 5
	attrTimeout    = 6
	attrProto      = 7
	attrFlagsADT   = 8
	attrHashSize   = 18 // from here to attrReferences: of a set's header
	attrMaxElem    = 19
	attrNetmask    = 20
	attrElements   = 24
	attrReferences = 25
	attrIP2        = 20 // from here on: of an entry
	attrCIDR2      = 21
)

// Attributes inside attrIP and attrIP2.
const (
	attrIPv4 = 1
	attrIPv6 = 2
)

const (
	flagListHeader = 1 << 2 // attrFlags of cmdList: leave out the entries
	flagNoMatch    = 1 << 2 // attrFlagsADT: the entry is an exception

	flagCounters = 1 << 3 // from here on: attrFlagsADT of a set's header
	flagComment  = 1 << 4
	flagForceAdd = 1 << 5
	flagSKBInfo  = 1 << 6
)

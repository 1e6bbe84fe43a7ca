package kernel

import (
	"cmp"
	"net/netip"
	"strings"
)

// Object is one thing in the kernel. Its dynamic type is one of the comparable
// types below; String is its line in the canonical text.
type Object interface {
	Kind() Kind
	String() string
}

// Kind names a type of Object.
type Kind uint8

// The kinds, in the order of the canonical text.
const (
	KindSysctl Kind = iota
	KindSet
	KindEntry
	KindSwap
	KindChain
	KindLink
	KindVirtual
	KindReal
	KindAddr
	KindRoute
	KindNeighbor
	KindFlow
	KindTimeouts
	NumKinds
)

var kindNames = [NumKinds]string{
	"sysctl", "set", "entry", "swap", "chain", "link", "virtual", "real", "address", "route", "neighbor", "flow", "timeouts",
}

func (k Kind) String() string { return kindNames[k] }

// Sysctl is one kernel parameter. Name has dots: net.ipv4.vs.conntrack. In a
// wanted state AtLeast keeps a larger number that is there, and Over, unless it
// is "", keeps every value but that one: the kernel's own, which nobody chose.
type Sysctl struct {
	Name, Value string
	AtLeast     bool
	Over        string
}

// Set is an ipset. MaxElem is its capacity in entries, 0 for a bitmap: of a
// wanted set it says what to create, and one that exists is kept as long as its
// own capacity suffices. A bitmap's Type has its range, unless that is all ports.
type Set struct {
	Name    string
	Type    SetType
	Family  Family
	MaxElem uint32
	// Options are what a set has and ours never do, as ipset prints them: "timeout
	// 600 counters". Entries of such a set may expire, or be evicted.
	Options string
	// References counts the rules that use a set of another type than ours, be
	// they ours or another program's. It is 0 for all others.
	References uint32
	// Size is how many entries a set that is to be made will soon get, 0 in
	// readings: the kernel starts it with as many buckets.
	Size uint32
}

// Entry is one member of a set. Which fields count depends on the set's type;
// the others are zero. Second is the third part of hash:ip,port,ip (a single
// address) and hash:ip,port,net.
type Entry struct {
	Set    string
	Addr   netip.Addr
	Proto  Proto
	Port   uint16
	Second netip.Prefix
}

// Swap exchanges the content and capacity of two sets of one type.
type Swap struct{ From, To string }

// Chain is an iptables chain with all its rules, or, of a built-in chain, the
// rules that are ours: the jumps to our chains. Rules has one rule a line, as
// iptables-save prints it after "-A CHAIN ". Comments are carried but do not
// count in comparisons.
type Chain struct {
	Family      Family
	Table, Name string
	Rules       string
}

// Link is a network device.
type Link struct{ Name, Type string }

// VirtualKey is what identifies a virtual server.
type VirtualKey struct {
	Addr  netip.AddrPort
	Proto Proto
}

// Family of the virtual server's address.
func (k VirtualKey) Family() Family { return FamilyOf(k.Addr.Addr()) }

// FamilyOf is the family of an address.
func FamilyOf(a netip.Addr) Family {
	if a.Is4() {
		return IPv4
	}
	return IPv6
}

// Flags of a virtual server: IP_VS_SVC_F_* of linux/ip_vs.h, without HASHED,
// which is the kernel's own.
const (
	FlagPersistent uint32 = 0x1
	FlagOnePacket  uint32 = 0x4
	FlagSched1     uint32 = 0x8  // sh-fallback, mh-fallback
	FlagSched2     uint32 = 0x10 // sh-port, mh-port
	FlagSched3     uint32 = 0x20
)

// Virtual is an IPVS virtual server. Timeout is in seconds and Netmask is a
// prefix length; both matter only with FlagPersistent.
type Virtual struct {
	Key       VirtualKey
	Scheduler string
	Flags     uint32
	Timeout   uint32
	Netmask   uint8
}

// Forward is how packets reach a real server: IP_VS_CONN_F_* of linux/ip_vs.h.
type Forward uint8

// The forwarding methods. Ours is always Masquerade.
const (
	Masquerade Forward = 0
	LocalNode  Forward = 1
	Tunnel     Forward = 2
	Direct     Forward = 3
)

// RealKey is what identifies a real server.
type RealKey struct {
	Virtual VirtualKey
	Addr    netip.AddrPort
}

// Real is an IPVS real server. Weight 0 takes no new connections.
type Real struct {
	Key     RealKey
	Weight  uint32
	Forward Forward
}

// Addr is an address on a device.
type Addr struct {
	Addr netip.Addr
	Link string
}

// RouteProtocol marks the local routes that are ours: an rtm_protocol that
// neither the kernel (linux/rtnetlink.h) nor iproute2 (rt_protos) gives a name.
const RouteProtocol = 143

// Route makes a VIP local without binding it: `local ADDR dev lo table local`,
// with RouteProtocol.
type Route struct{ Addr netip.Addr }

// Neighbor has the node answer neighbour solicitations for an IPv6 VIP on a
// link, as it answers ARP for IPv4 ones unasked.
type Neighbor struct {
	Addr netip.Addr
	Link string
}

// Flow is what connection tracking knows of a virtual server's packets to one
// real server: all entries with this original destination and this reply
// source. It is only ever removed.
type Flow struct{ Key RealKey }

// The Kind methods make the types Objects.
func (Sysctl) Kind() Kind  { return KindSysctl }
func (Set) Kind() Kind     { return KindSet }
func (Entry) Kind() Kind   { return KindEntry }
func (Swap) Kind() Kind    { return KindSwap }
func (Chain) Kind() Kind   { return KindChain }
func (Link) Kind() Kind    { return KindLink }
func (Virtual) Kind() Kind { return KindVirtual }
func (Real) Kind() Kind    { return KindReal }
func (Addr) Kind() Kind    { return KindAddr }

func (Route) Kind() Kind    { return KindRoute }
func (Neighbor) Kind() Kind { return KindNeighbor }
func (Flow) Kind() Kind     { return KindFlow }
func (Timeouts) Kind() Kind { return KindTimeouts }

// Compare orders by address, protocol and port: the order of entries in a set,
// so that virtual servers and the ownership set can be walked side by side.
func (k VirtualKey) Compare(o VirtualKey) int {
	if c := k.Addr.Addr().Compare(o.Addr.Addr()); c != 0 {
		return c
	}
	if c := cmp.Compare(k.Proto, o.Proto); c != 0 {
		return c
	}
	return cmp.Compare(k.Addr.Port(), o.Addr.Port())
}

// Same says whether two keys are equal. It is faster than ==, for which Go calls a
// function for each nested struct.
func (k *VirtualKey) Same(o *VirtualKey) bool {
	return k.Proto == o.Proto && k.Addr.Addr() == o.Addr.Addr() && k.Addr.Port() == o.Addr.Port()
}

// CompareKeys is VirtualKey.Compare, faster where both are equal.
func CompareKeys(a, b *VirtualKey) int {
	if a.Same(b) {
		return 0
	}
	return a.Compare(*b)
}

// Compare orders by virtual server, then address and port.
func (k RealKey) Compare(o RealKey) int {
	if c := CompareKeys(&k.Virtual, &o.Virtual); c != 0 {
		return c
	}
	return k.Addr.Compare(o.Addr)
}

// Compare orders by set, then as VirtualKey does, then by Second.
func (e Entry) Compare(o Entry) int {
	if c := strings.Compare(e.Set, o.Set); c != 0 {
		return c
	}
	if c := e.Key().Compare(o.Key()); c != 0 {
		return c
	}
	if c := e.Second.Addr().Compare(o.Second.Addr()); c != 0 {
		return c
	}
	return cmp.Compare(e.Second.Bits(), o.Second.Bits())
}

// Key is the virtual server that an entry of a hash:ip,port set names.
func (e Entry) Key() VirtualKey {
	return VirtualKey{Addr: netip.AddrPortFrom(e.Addr, e.Port), Proto: e.Proto}
}

func (a Sysctl) Compare(b Sysctl) int   { return strings.Compare(a.Name, b.Name) }
func (a Set) Compare(b Set) int         { return strings.Compare(a.Name, b.Name) }
func (a Link) Compare(b Link) int       { return strings.Compare(a.Name, b.Name) }
func (a Virtual) Compare(b Virtual) int { return a.Key.Compare(b.Key) }
func (a Real) Compare(b Real) int       { return a.Key.Compare(b.Key) }

func (a Chain) Compare(b Chain) int {
	return cmp.Or(cmp.Compare(a.Family, b.Family), strings.Compare(a.Table, b.Table), strings.Compare(a.Name, b.Name))
}

func (a Route) Compare(b Route) int { return a.Addr.Compare(b.Addr) }

func (a Neighbor) Compare(b Neighbor) int {
	return cmp.Or(strings.Compare(a.Link, b.Link), a.Addr.Compare(b.Addr))
}

func (a Addr) Compare(b Addr) int {
	return cmp.Or(strings.Compare(a.Link, b.Link), a.Addr.Compare(b.Addr))
}

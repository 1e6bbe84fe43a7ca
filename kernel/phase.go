package kernel

// Phase is a step of every plan. A plan has its ops in the order of their phases, so
// that after each op the kernel is safe to use and the owned objects are known.
// DESIGN.md says which packets would be lost in another order.
type Phase uint8

// The phases, in the order of every plan: build up, then tear down in reverse.
const (
	DropLeftovers Phase = iota // temporary sets that a crash left during a resize

	// A set of an owned name has a foreign type: first its rules go, then the set.
	DropMisusedChains
	DropMisusedSets

	SetSysctls
	AddSets     // a resize too: create, fill, swap, destroy
	AddLinks    // the device that VIPs are bound to
	AddGuards   // ownership, guarded VIPs, masquerading: before their virtual servers
	WriteChains // every set that a rule names exists
	AddVirtuals
	AddReals
	OpenVIPs      // each entry lets packets in to a virtual server that exists
	ReplaceChains // of another mode, which refused what is now served
	AddAddrs      // without its address a VIP is merely unreachable
	ReplaceNAT    // of another mode, which balanced until now: it served VIPs without an address
	DropOthers    // chains in the other back end of iptables, for the same reason
	Announce      // last: routers send packets from here on

	Withdraw  // first: routers that have another node stop sending here
	CloseVIPs // from here on new connections are refused, established ones still served
	RemoveReals
	RemoveVirtuals
	ClearFlows // when no packet recreates them
	RemoveAddrs
	RemoveGuards
	RemoveChains
	RemoveSets
	RemoveLinks
	RestoreSysctls

	NumPhases
)

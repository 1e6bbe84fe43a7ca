package plan

// phase is a step of every plan. A plan's ops stand in the order of their
// phases, so that the kernel is safe to use, and says truly what is ours, after
// each of them. DESIGN.md says what would happen to which packet otherwise.
type phase uint8

// The order of every plan: build up, then tear down in reverse.
const (
	dropLeftovers phase = iota // sets that a crash left half-way through a resize

	// A set of ours with a foreign type: its rules first, then the set.
	dropMisusedChains
	dropMisusedSets

	setSysctls
	addSets     // and resize: create, fill, swap, destroy
	addLinks    // the device that VIPs are bound to
	addGuards   // ownership, guarded VIPs, masquerading: before what they are about
	writeChains // every set that a rule names exists
	addVirtuals
	addReals
	openVIPs // a virtual server stands behind each entry that lets packets in
	addAddrs // a VIP without its address is merely unreachable, so it comes last

	closeVIPs // from here on new connections are refused, old ones still served
	removeReals
	removeVirtuals
	clearFlows // once no packet makes them anew
	removeAddrs
	removeGuards
	removeChains
	removeSets
	removeLinks
	restoreSysctls

	numPhases
)

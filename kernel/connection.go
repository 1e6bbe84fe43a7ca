package kernel

import "net/netip"

// Connection is what the kernel keeps of a client's connection to a virtual server. An
// address is zero if there is no such entry.
type Connection struct {
	// Real is where IPVS sends it, State in the words of ipvsadm -Lc, and Expires the
	// seconds until IPVS forgets it if no packet comes.
	Real    netip.AddrPort
	State   string
	Expires uint32
	// Kept is where IPVS keeps new connections of the client, for KeptFor seconds
	// (persistence).
	Kept    netip.AddrPort
	KeptFor uint32
	// Connection tracking expects replies from Replies to To.
	Replies, To netip.AddrPort
}

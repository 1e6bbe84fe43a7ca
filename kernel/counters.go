package kernel

// Counters is one reading of the kernel's counters. They are for people; no plan depends
// on them.
type Counters struct {
	// Total counts all virtual servers since IPVS began to count, also removed ones and
	// those by firewall mark.
	Total    Traffic
	Virtuals []VirtualCounters // of all programs, sorted
	Reals    []RealCounters    // sorted
	// Chosen are the connections that rules of nftables sent to each endpoint of an address, sorted, under no endpoint
	// those to endpoints that the address no longer has. Nil: nothing counts them.
	Chosen []RealTraffic
	// Refused has services with limits by the HashOf their names. Nil: there are none.
	Refused map[string]Refusals
	// Flows is the number of entries in the connection tracker, and MaxFlows its limit.
	// Both are 0 if the connection tracker is not loaded.
	Flows, MaxFlows uint64
	// KnowsFull: RealCounters.Full is known. IPVS does not tell.
	KnowsFull bool
}

// Traffic counts since a virtual or real server was added. In is from clients, Out to
// clients.
type Traffic struct {
	Conns, InPackets, OutPackets, InBytes, OutBytes uint64
}

// VirtualCounters is the traffic of one virtual server.
type VirtualCounters struct {
	Key VirtualKey
	Traffic
}

// RealTraffic is the traffic of one real server.
type RealTraffic struct {
	Key RealKey
	Traffic
}

// RealCounters has a real server's weight, and its connections as in Conns. It has no
// persistence templates: the kernel tells these only with one request for each virtual
// server, which a full reading makes.
type RealCounters struct {
	Key                      RealKey
	Weight, Active, Inactive uint32
	Full                     bool // it gets no new connections because of its thresholds; see Counters.KnowsFull
}

package kernel

// Counters is one reading of what the kernel counts: what people look at, and
// what no plan depends on.
type Counters struct {
	// Total is of all virtual servers since IPVS began to count, those that are
	// gone and those by firewall mark among them.
	Total    Traffic
	Virtuals []VirtualCounters // of whoever made them, sorted
	Reals    []RealCounters    // sorted
	// Flows are the entries of the connection tracker, of which there may be
	// MaxFlows; both 0 where it is not loaded.
	Flows, MaxFlows uint64
}

// Traffic is what has come by since a virtual server was made. In is from
// clients, Out to them.
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

// RealCounters is how one real server stands: its weight and its connections, as
// in Conns. Persistence templates are not among them: nothing but a question
// for each virtual server tells those, and a full reading asks it.
type RealCounters struct {
	Key                      RealKey
	Weight, Active, Inactive uint32
}

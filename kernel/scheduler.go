package kernel

// RelaySchedulers are the schedulers of IPVS that kernel/relay has. Mode userspace replaces the others by one of them.
var RelaySchedulers = []string{"rr", "wrr", "lc", "wlc", "sh"}

// Hash schedulers keep a real server of weight 0 in their table. For clients that hash
// to it, mh and sh choose another real server if their fallback flag is set. dh has no
// such flag and refuses them: a third of all new connections with three real servers
// (measured on Linux 6.1).

// SchedulerFlags returns the flags of a virtual server with this scheduler. With them a
// real server of weight 0 refuses no client, and mh distinguishes a client's connections
// by their ports. Otherwise all clients behind a NAT gateway would meet in one real
// server.
func SchedulerFlags(scheduler string) uint32 {
	switch scheduler {
	case "mh":
		return FlagSched1 | FlagSched2
	case "sh":
		return FlagSched1
	}
	return 0
}

// Quiesces reports whether a scheduler passes over real servers of weight 0. Under one that
// does not, wanted states have no such real servers, and one that is no longer wanted is
// removed at once, with its connections.
func Quiesces(scheduler string) bool { return scheduler != "dh" }

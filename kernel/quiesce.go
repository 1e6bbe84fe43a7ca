package kernel

// A hash scheduler keeps a real server whose weight falls to 0 in its table. What
// becomes of the clients that hash to it depends on the scheduler: mh and sh look
// for another real server if their fallback flag is set, dh has no such flag and
// refuses them (measured on Linux 6.1, three real servers: a third of all new
// connections).

// SchedulerFlags are the flags of a virtual server with this scheduler: with them a
// real server of weight 0 costs no client its connection, and mh tells a client's
// connections apart by their ports. Without the latter all of them, as those of a
// NAT gateway, would meet in one real server.
func SchedulerFlags(scheduler string) uint32 {
	switch scheduler {
	case "mh":
		return FlagSched1 | FlagSched2
	case "sh":
		return FlagSched1
	}
	return 0
}

// Quiesces says whether a scheduler passes over real servers of weight 0. Under one
// that does not none is kept: a wanted state has none, and one that is no longer
// wanted is removed at once, with its connections.
func Quiesces(scheduler string) bool { return scheduler != "dh" }

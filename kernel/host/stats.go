package host

import "github.com/svcproxy/svcproxy/kernel/nl"

// Stats counts what the kernel was asked for since Open.
type Stats struct {
	Netlink Netlink
	// Readers and Writers are the iptables tools that were run.
	Readers, Writers uint64
}

// Netlink counts system calls and messages by kind of socket.
type Netlink struct{ IPVS, Sets, Links nl.Stats }

// Stats may be called at any time from any goroutine.
func (k *Kernel) Stats() Stats {
	tools := k.tables.Stats()
	return Stats{
		Netlink: Netlink{IPVS: k.ipvs.Stats().Stats, Sets: k.sets.Stats(), Links: k.links.Stats()},
		Readers: tools.Readers, Writers: tools.Writers,
	}
}

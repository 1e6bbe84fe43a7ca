package host

import (
	"iter"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// Stats counts calls to the kernel since Open.
type Stats struct {
	Netlink Netlink
	// Readers and Writers count the iptables tools that were run.
	Readers, Writers uint64
	// Tracked counts the connections, by family, that were removed from connection
	// tracking.
	Tracked4, Tracked6 Tracked
}

// Netlink counts system calls and messages by kind of socket.
type Netlink struct{ IPVS, Sets, NFT, Links, Conntrack nl.Stats }

// All returns each kind of socket with its name.
func (n Netlink) All() iter.Seq2[string, nl.Stats] {
	return func(yield func(string, nl.Stats) bool) {
		_ = yield("ipvs", n.IPVS) && yield("ipset", n.Sets) && yield("nftables", n.NFT) && yield("link", n.Links) &&
			yield("conntrack", n.Conntrack)
	}
}

// Tracked counts removed connection tracking entries, and the time that took.
type Tracked struct {
	Deleted uint64
	Took    time.Duration
}

// Stats may be called by any goroutine at any time.
func (k *Kernel) Stats() Stats {
	tools := k.tables.Stats()
	n := Netlink{IPVS: k.ipvs.Stats().Stats, Links: k.links.Stats(), Conntrack: k.flows.Stats()}
	if k.o.Native {
		n.NFT = k.sets.Stats()
	} else {
		n.Sets = k.sets.Stats()
	}
	return Stats{
		Netlink: n,
		Readers: tools.Readers, Writers: tools.Writers,
		Tracked4: k.tracked(kernel.IPv4), Tracked6: k.tracked(kernel.IPv6),
	}
}

func (k *Kernel) tracked(f kernel.Family) Tracked {
	return Tracked{Deleted: k.flows.Deleted(f), Took: k.flows.Took(f)}
}

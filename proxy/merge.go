package proxy

import (
	"net/netip"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// OnNode returns facts with the addresses and gateways of a node.
func OnNode(facts sources.HostFacts, n kernel.Node) sources.HostFacts {
	facts.Gateways, facts.Addrs = n.Gateways, make([]netip.Addr, len(n.Addrs))
	for i, a := range n.Addrs {
		facts.Addrs[i] = a.Prefix.Addr()
	}
	return facts
}

// merge makes one table of the sources' tables, for the node as the kernel has it now.
func (p *Proxy) merge(r *Report) sources.Merged {
	merged := p.merger.Merge(OnNode(p.facts, p.have.Node), p.hold, p.tables...)
	p.unsaved = p.unsaved || merged.Decided || merged.Delta.Moved
	p.next.Table, p.next.Delta, p.next.Doubts = merged.Table, merged.Delta, lines(merged.Doubts)
	r.Problems = merged.Problems
	p.left.hear(lines(merged.Problems))
	p.doubtful.hear(p.next.Doubts)
	return merged
}

// Table is what a source delivered last, and whether it has delivered. It may be called from any goroutine.
func (p *Proxy) Table(source string) (t sources.Table, delivered bool) {
	p.init()
	return p.in.table(source)
}

// remember passes what is served to Served, if that may differ from the last time.
func (p *Proxy) remember() {
	if p.Served == nil || p.hold || !p.unsaved {
		return
	}
	p.unsaved = false
	p.Served(p.merger.Incumbents())
}

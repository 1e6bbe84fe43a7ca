package proxy

import (
	"net/netip"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// OnNode returns facts with the addresses and gateways of a node.
func OnNode(facts sources.HostFacts, n kernel.Node) sources.HostFacts {
	facts.MTU = n.MTU
	facts.Gateways, facts.Addrs = n.Gateways, make([]netip.Addr, len(n.Addrs))
	for i, a := range n.Addrs {
		facts.Addrs[i] = a.Prefix.Addr()
	}
	if facts.NodePorts.Primary != nil {
		for _, a := range []netip.Addr{n.Primary4, n.Primary6} {
			named := slices.ContainsFunc(facts.NodePorts.Primary, func(b netip.Addr) bool { return a.Is4() == b.Is4() })
			if a.IsValid() && !named {
				facts.NodePorts.Primary = append(slices.Clone(facts.NodePorts.Primary), a)
			}
		}
	}
	return facts
}

// merge makes one table of the sources' tables, for the node as the kernel has it now.
func (p *Proxy) merge(r *Report) sources.Merged {
	facts := p.facts(r.Checked)
	facts.NoLimits = p.noLimits(r.Checked)
	merged := p.merger.Merge(facts, p.input.waiting, p.input.tables...)
	p.judgedPrograms(&merged)
	p.keeps = merged.Keeps
	p.unsaved = p.unsaved || merged.Contested || merged.Delta.Moved
	p.next.Doubts = lines(merged.Doubts)
	r.Problems = merged.Problems
	p.logs.withheld.report(lines(merged.Problems))
	p.logs.doubts.report(p.next.Doubts)
	return merged
}

// overlay gives the endpoints of the merged table the weights that follow from health
// checks and the operator's orders.
func (p *Proxy) overlay(m sources.Merged) sources.Merged {
	p.pace.overlay = time.Time{}
	p.next.Sourced = len(m.Delta.Changes) > 0 || m.Delta.Lists
	if p.Health != nil {
		m, p.pace.overlay = p.Health.Overlay(m, &p.reading.have)
	}
	p.next.Changes = nil
	if p.next.Sourced && !p.pace.lastSync.IsZero() {
		p.next.Changes = sources.Describe(p.next.Table, m.Table, m.Delta, maxChangeLines)
	}
	p.next.Table, p.next.Delta = m.Table, m.Delta
	return m
}

// recordServed passes what is served to Served, if that may differ from the last time.
func (p *Proxy) recordServed() {
	if p.Served == nil || p.keeps || !p.unsaved {
		return
	}
	p.unsaved = false
	p.Served(p.merger.Incumbents())
}

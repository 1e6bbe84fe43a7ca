package proxy

import (
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// Facts are what a merge knows of a node: which VIPs it has on links of its own, and which it must not bind.
func Facts(n kernel.Node) sources.HostFacts {
	f := sources.HostFacts{Gateways: n.Gateways}
	for _, a := range n.Addrs {
		f.Addrs = append(f.Addrs, a.Prefix.Addr())
	}
	return f
}

// merge makes one table of the sources', for the node as it was read.
func (p *Proxy) merge(r *Report) sources.Table {
	if n := p.have.Node; !slices.Equal(n.Addrs, p.node.Addrs) || !slices.Equal(n.Gateways, p.node.Gateways) {
		p.facts = Facts(n)
	}
	p.node = p.have.Node
	table, problems := p.merger.Merge(p.facts, p.hold, p.tables...)
	r.Problems = problems
	p.left.hear(lines(problems))
	return table
}

// Table is what a source delivered last, and whether it has delivered. It may be called from any goroutine.
func (p *Proxy) Table(source string) (t sources.Table, delivered bool) {
	p.init()
	return p.in.table(source)
}

// remember has what is served now be known to the next run, if that may be something else than before.
func (p *Proxy) remember() {
	if p.Served == nil || p.hold || p.remembered == p.merger.Rounds() {
		return
	}
	p.remembered = p.merger.Rounds()
	p.Served(p.merger.Incumbents())
}

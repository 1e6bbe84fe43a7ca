package kernel

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// OtherChain is a chain of ours, or our jumps in a built-in one, in a back end that svcproxy does not
// write: legacy tables where iptables is that of nftables, and the reverse. An earlier run or kube-proxy
// left it there when the node had the other back end, or another program restored it. It goes on
// translating and refusing packets, so none is ever wanted.
//
// Where package nft writes the rules, our sets of ipset are such objects, too, in a table of their own.
// Where it does not, its own tables are, each as a whole.
type OtherChain struct {
	Chain
	Backend string // BackendLegacy and so on
	// Stuck says that no program of this machine can remove it. Its rules are not known then.
	Stuck bool
}

// The back ends. The first two are those of iptables. BackendIPSet has sets: their table is called like it.
// BackendNative has the tables of package nft, whose chain is called like the table.
const (
	BackendLegacy = "legacy"
	BackendNFT    = "nft"
	BackendIPSet  = "ipset"
	BackendNative = "native"
)

// OtherSet returns a set of ipset as an OtherChain.
func OtherSet(s Set) OtherChain {
	return OtherChain{Chain: Chain{Family: s.Family, Table: BackendIPSet, Name: s.Name}, Backend: BackendIPSet}
}

// OtherTable returns a table of package nft as an OtherChain.
func OtherTable(f Family, name string) OtherChain {
	return OtherChain{Chain: Chain{Family: f, Table: name, Name: name}, Backend: BackendNative}
}

var otherChains = list[OtherChain]{
	get:     func(s State) []OtherChain { return s.Others },
	set:     func(s *State, all []OtherChain) { s.Others = all },
	compare: OtherChain.Compare,
	same: func(a, b *OtherChain) bool {
		return a.Backend == b.Backend && a.Stuck == b.Stuck && sameChain(&a.Chain, &b.Chain)
	},
}

// Kind is KindOtherChain.
func (OtherChain) Kind() Kind { return KindOtherChain }

// Compare orders by family, table, name and back end.
func (c OtherChain) Compare(o OtherChain) int {
	if n := c.Chain.Compare(o.Chain); n != 0 {
		return n
	}
	return strings.Compare(c.Backend, o.Backend)
}

// String is the string of the chain, with the tool that shows it: "chain iptables-legacy nat
// KUBE-SERVICES: 7 rules".
func (c OtherChain) String() string {
	switch c.Backend {
	case BackendIPSet:
		return "set " + c.Name + " of ipset"
	case BackendNative:
		return fmt.Sprintf("table %s %s of nftables", c.Family.nft(), c.Name)
	}
	_, rest, _ := strings.Cut(strings.TrimPrefix(c.Chain.String(), "chain "), " ")
	return fmt.Sprintf("chain %s %s", c.Tool(), rest)
}

// Tool names the program of the family and back end: "ip6tables-nft".
func (c OtherChain) Tool() string {
	switch c.Backend {
	case BackendIPSet:
		return "ipset"
	case BackendNative:
		return "nft"
	}
	return c.Family.Tool() + "-" + c.Backend
}

// nft is the name of the family's tables in nftables.
func (f Family) nft() string {
	if f == IPv6 {
		return "ip6"
	}
	return "ip"
}

// OtherChains returns chains as those of a back end.
func OtherChains(chains []Chain, backend string, stuck bool) []OtherChain {
	others := make([]OtherChain, len(chains))
	for i, c := range chains {
		others[i] = OtherChain{Chain: c, Backend: backend, Stuck: stuck}
	}
	return others
}

// OtherLines says of which tool's tables chains stay, a line for each tool.
func OtherLines(others []OtherChain) (lines []string) {
	for _, tool := range OtherTools(others) {
		n, stuck, first := 0, false, ""
		for _, c := range others {
			if c.Tool() == tool {
				n, stuck, first = n+1, stuck || c.Stuck, cmp.Or(first, c.Name)
			}
		}
		line := fmt.Sprintf("chains of ours are left in the tables of %s (%d, the first is %s), which packets pass", tool, n,
			first)
		switch tool {
		case "ipset":
			line = fmt.Sprintf("sets of ours are left in ipset (%d, the first is %s)", n, first)
		case "nft":
			line = fmt.Sprintf("table %s of ours is left in nftables, which packets pass", first)
		}
		if stuck {
			line += ": install " + tool + ", and the next sync removes them"
		}
		lines = append(lines, line)
	}
	return lines
}

// OtherTools lists the tools of chains.
func OtherTools(others []OtherChain) (tools []string) {
	for _, c := range others {
		if !slices.Contains(tools, c.Tool()) {
			tools = append(tools, c.Tool())
		}
	}
	return tools
}

// appendOthers writes them as appendChains does, with the names of their tools.
func appendOthers(b *strings.Builder, o *Observed) {
	for rest := o.Others; len(rest) > 0; {
		first, n := rest[0], 1
		for n < len(rest) && rest[n].Family == first.Family && rest[n].Table == first.Table &&
			rest[n].Backend == first.Backend && rest[n].Stuck == first.Stuck {
			n++
		}
		tool := first.Family.Tool() + "-" + first.Backend
		if first.Stuck {
			tool += " stuck"
		}
		chains := make([]Chain, n)
		for i := range chains {
			chains[i] = rest[i].Chain
		}
		appendTable(b, tool, chains)
		rest = rest[n:]
	}
}

// otherTool begins a section of chains in the other back end, which ends where another one begins.
func (p *parser) otherTool(tool string, stuck bool) {
	name, backend, _ := strings.Cut(tool, "-")
	p.family = IPv4
	if name == IPv6.Tool() {
		p.family = IPv6
	}
	p.other = &OtherChain{Backend: backend, Stuck: stuck}
}

// endOther puts the chains of a table of the section into the reading.
func (p *parser) endOther() {
	if p.other == nil {
		return
	}
	p.o.Others = append(p.o.Others, OtherChains(p.others.Chains(), p.other.Backend, p.other.Stuck)...)
	p.others = ChainBuilder{}
}

package packet

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// Firewall is the base chains with rules of other programs, parsed.
type Firewall struct {
	Bases []Base // in the order of kernel.SortFirewall
	node  *Node
	hides Field // what rules of others may have changed before a packet gets to a chain
}

// Base is a base chain.
type Base struct {
	kernel.BaseChain
	node   *Node
	chains map[string][]Rule // the base chain is ""
}

// NewFirewall parses the base chains of a reading, which must be sorted.
func NewFirewall(o *kernel.Observed) *Firewall {
	f := &Firewall{node: &Node{State: &o.State, Facts: o.Node}}
	for _, b := range o.Firewall {
		if strings.Contains(b.Rules, "MARK") {
			f.hides |= Mark
		}
		if strings.Contains(b.Rules, "NOTRACK") || strings.Contains(b.Rules, "--notrack") {
			f.hides |= Tracking
		}
		f.Bases = append(f.Bases, Base{b, f.node, parseChains(b.Rules)})
	}
	return f
}

// parseChains parses kernel.BaseChain.Rules.
func parseChains(text string) map[string][]Rule {
	chains, chain := map[string][]Rule{}, ""
	for line := range strings.SplitSeq(text, "\n") {
		if name, begins := strings.CutPrefix(line, ":"); begins {
			chain = name
			chains[chain] = nil
		} else if line != "" {
			chains[chain] = append(chains[chain], ParseRule(line))
		}
	}
	return chains
}

// At returns the base chains at a hook that packets of a family pass, and that come in or leave by a device; ""
// if it is not known.
func (f *Firewall) At(hook string, family kernel.Family, link string) (list []*Base) {
	for i := range f.Bases {
		b := &f.Bases[i]
		if b.Hook == hook && b.Sees(family) &&
			(b.Links == "" || link != "" && slices.Contains(strings.Split(b.Links, ","), link)) {
			list = append(list, b)
		}
	}
	return list
}

// View is a packet before any chain sees it.
func (f *Firewall) View(p Packet) View { return View{Packet: p, Node: f.node} }

// Effect is what becomes of a packet in a base chain.
type Effect string

// The effects.
const (
	Accepts Effect = "accept"
	Drops   Effect = "drop"
	Rejects Effect = "reject"
	Moves   Effect = "move" // it gets another destination
	Unclear Effect = "unclear"
)

// Ruling is what a base chain does with a packet.
type Ruling struct {
	Effect
	// Rule decides; it is "" if the policy does, or a rule for every packet, and if the effect is unclear.
	Rule string
	To   netip.AddrPort // of Moves; zero if it is not known

	// MayEnd has the matches of the first rule that may drop, reject or move the packet, and May what it does, if the
	// effect is unclear; MayEnd is "" if only what is left over is lost.
	May    Effect
	MayEnd string
	Doubts []string // the rules about which it cannot tell
	// Left is the packet when it leaves the chain: with another mark, or out of connection tracking.
	Left View
}

// Lost reports whether no packet goes on.
func (r *Ruling) Lost() bool { return r.Effect == Drops || r.Effect == Rejects }

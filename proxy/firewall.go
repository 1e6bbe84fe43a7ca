package proxy

import (
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/packet"
	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// firewall is the last answer of packet.Blocked, and to what: in a check nothing of it has changed, and a new service
// changes little.
type firewall struct {
	bases    []kernel.BaseChain
	virtuals []kernel.Virtual
	chains   []kernel.Chain
	node     kernel.Node
	relayed  bool
	fronts   *frontend.Frontends
	shut     []packet.Shut // of virtuals
	lines    []string
}

// blocked is packet.Blocked. It judges only what has changed since the last sync.
func (f *firewall) blocked(have *kernel.Observed, want *kernel.State, fronts *frontend.Frontends) []string {
	last := *f
	*f = firewall{have.Firewall, want.Virtuals, want.Chains, have.Node, have.Relayed, fronts, last.shut, last.lines}
	same := slices.Equal(last.bases, have.Firewall) && last.relayed == have.Relayed && last.node.Equal(have.Node)
	switch {
	case len(have.Firewall) == 0:
		f.shut, f.lines = nil, nil
	case len(want.Virtuals) == 0: // mode iptables makes the chains of the same Frontends again
		known := same && len(last.virtuals) == 0
		if known && (last.fronts == fronts || last.fronts != nil && fronts != nil && fronts.Same(last.fronts)) {
			break
		}
		var byRules []kernel.VirtualKey
		if fronts != nil {
			byRules = fronts.Elsewhere()
		}
		f.shut, f.lines = nil, packet.Blocked(have, want, byRules)
	case same && kernel.SameSlice(last.chains, want.Chains) && kernel.SameSlice(last.virtuals, want.Virtuals):
	default:
		if !same || !kernel.SameSlice(last.chains, want.Chains) {
			last.virtuals, last.shut = nil, nil
		}
		f.judge(have, want, &last)
	}
	return f.lines
}

// judge judges the virtual servers that were not judged last.
func (f *firewall) judge(have *kernel.Observed, want *kernel.State, last *firewall) {
	var fresh []kernel.VirtualKey
	gone := map[kernel.VirtualKey]bool{}
	sameKey := func(a, b *kernel.Virtual) bool { return a.Key == b.Key }
	kernel.Walk(want.Virtuals, last.virtuals, sameKey, kernel.Virtual.Compare, func(w, h *kernel.Virtual) {
		if h == nil {
			fresh = append(fresh, w.Key)
		} else if w == nil {
			gone[h.Key] = true
		}
	})
	wall := packet.NewFirewall(packet.Applied(have, want))
	stay := slices.DeleteFunc(slices.Clone(last.shut), func(s packet.Shut) bool { return gone[s.Key] })
	f.shut = append(stay, wall.Shut(packet.PassingOf(have), fresh)...)
	kernel.SortStableFunc(f.shut, func(a, b packet.Shut) int { return a.Key.Compare(b.Key) })
	f.lines = wall.Lines(f.shut)
}

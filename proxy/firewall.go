package proxy

import (
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/packet"
	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// Blocked returns a line for each base chain of other programs through which no client's packets pass to something
// that is served: to the wanted virtual servers, or without any to what rules send on to backends elsewhere. It judges
// what they do once the wanted state is applied.
func Blocked(have *kernel.Observed, want *kernel.State, byRules []kernel.VirtualKey) []string {
	if len(have.Firewall) == 0 {
		return nil
	}
	f := packet.NewFirewall(packet.Applied(have, want))
	if len(want.Virtuals) > 0 {
		keys := make([]kernel.VirtualKey, len(want.Virtuals))
		for i := range want.Virtuals {
			keys[i] = want.Virtuals[i].Key
		}
		if have.Relayed {
			return f.Blocked(packet.ByRelay, keys)
		}
		return f.Blocked(packet.ByIPVS, keys)
	}
	return f.Blocked(packet.ByNAT, byRules)
}

// firewall is the last answer of Blocked, and to what: in a check nothing of it has changed.
type firewall struct {
	bases    []kernel.BaseChain
	virtuals []kernel.Virtual
	chains   []kernel.Chain
	node     kernel.Node
	relayed  bool
	fronts   *frontend.Frontends
	lines    []string
}

// blocked is Blocked, with the answer of the last sync if it is still right.
func (f *firewall) blocked(have *kernel.Observed, want *kernel.State, fronts *frontend.Frontends) []string {
	same := slices.Equal(f.bases, have.Firewall) && sameSlice(f.virtuals, want.Virtuals) &&
		f.relayed == have.Relayed && f.node.Equal(have.Node)
	if len(want.Virtuals) > 0 {
		same = same && sameSlice(f.chains, want.Chains)
	} else { // mode iptables makes the chains of the same Frontends again
		same = same && (f.fronts == fronts || fronts != nil && f.fronts != nil && fronts.Same(f.fronts))
	}
	if f.fronts = fronts; !same { // Same knows only the Frontends just before
		var byRules []kernel.VirtualKey
		if len(want.Virtuals) == 0 && len(have.Firewall) > 0 && fronts != nil {
			byRules = fronts.Elsewhere()
		}
		*f = firewall{have.Firewall, want.Virtuals, want.Chains, have.Node, have.Relayed, fronts,
			Blocked(have, want, byRules)}
	}
	return f.lines
}

// sameSlice reports whether two slices are one.
func sameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

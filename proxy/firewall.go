package proxy

import (
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/packet"
	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// Blocked returns a line for each base chain of other programs through which no client's packets pass to something
// that is served: to the wanted virtual servers, or without any to what rules send on to backends elsewhere.
func Blocked(have *kernel.Observed, want []kernel.Virtual, byRules []kernel.VirtualKey) []string {
	if len(have.Firewall) == 0 {
		return nil
	}
	f := packet.NewFirewall(have)
	if len(want) > 0 {
		keys := make([]kernel.VirtualKey, len(want))
		for i := range want {
			keys[i] = want[i].Key
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
	bases  []kernel.BaseChain
	want   []kernel.Virtual
	fronts *frontend.Frontends
	lines  []string
}

// blocked is Blocked, with the answer of the last sync if it is still right.
func (f *firewall) blocked(have *kernel.Observed, want []kernel.Virtual, fronts *frontend.Frontends) []string {
	same := slices.Equal(f.bases, have.Firewall) && sameSlice(f.want, want) && (len(want) > 0 || f.fronts == fronts)
	if !same {
		var byRules []kernel.VirtualKey
		if len(want) == 0 && len(have.Firewall) > 0 && fronts != nil {
			byRules = fronts.Elsewhere()
		}
		*f = firewall{have.Firewall, want, fronts, Blocked(have, want, byRules)}
	}
	return f.lines
}

// sameSlice reports whether two slices are one.
func sameSlice(a, b []kernel.Virtual) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

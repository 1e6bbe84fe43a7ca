// Package ipvs is mode ipvs: IPVS balances connections, a constant number of
// iptables rules masquerades and filters them, and ipsets hold the addresses that
// the rules match.
//
// Names of sets and chains, and the rules, are those of kube-proxy's IPVS mode,
// v1.34 to v1.36. The package is pure; plan.Diff finds the way from what the
// kernel has to the state that State returns.
package ipvs

import (
	"fmt"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
)

// Mode is mode ipvs. The zero value is ready; one goroutine uses it. It patches
// its last state if only the backends of a few services changed. States that it
// returned do not change.
type Mode struct {
	last   *frontend.Frontends
	config mode.Config
	state  kernel.State
	// repeated are entries of KUBE-LOOP-BACK, sorted: one for each service port beyond the first that
	// needs the entry.
	repeated []kernel.Entry
}

var _ mode.Mode = (*Mode)(nil)

// Name returns "ipvs".
func (*Mode) Name() string { return mode.IPVS }

// Needs returns what IPVS, its sets and its rules are reached by.
func (*Mode) Needs() []kernel.Adapter {
	return []kernel.Adapter{kernel.IPVSAdapter, kernel.IPSetAdapter, kernel.IPTablesAdapter, kernel.LinkAdapter,
		kernel.ConntrackAdapter}
}

// Trial has the rules but those that name a set: package ipset asks the kernel for each type.
func (*Mode) Trial(n kernel.Names) []kernel.Chain { return trial(n, false) }

// Extras returns nothing: sets and rules are the same on all kernels.
func (*Mode) Extras(kernel.Names) []mode.Extra { return nil }

// Periods returns those of ipvs.syncPeriod and ipvs.minSyncPeriod.
func (*Mode) Periods(c mode.Config) mode.Periods { return c.IPVS }

// Sysctls returns the kernel parameters that State may contain.
func (*Mode) Sysctls() []string { return SysctlNames }

// SysctlNames are the kernel parameters that State may contain, sorted.
var SysctlNames = slices.Sorted(slices.Values(append(slices.Clone(mode.SysctlNames),
	"net.ipv4.vs.conn_reuse_mode",
	"net.ipv4.vs.conntrack",
	"net.ipv4.vs.expire_nodest_conn",
	"net.ipv4.vs.expire_quiescent_template",
	sloppyTCP,
	sloppySCTP,
	syncThreshold,
)))

// WhyNot returns "": IPVS serves all fronts.
func (*Mode) WhyNot(*frontend.Front) string { return "" }

// Doubts has the services that are forwarded by GUE, if the kernel is too old for it.
func (*Mode) Doubts(f *frontend.Frontends, _ mode.Config) (lines []string) {
	if r := f.Node.Release; r == (kernel.Release{}) || !r.Before(5, 3) {
		return nil
	}
	last := int32(-1)
	for i := range f.Fronts {
		x := &f.Fronts[i]
		if x.Service != last && f.Forward(x) == sources.GUE {
			last = x.Service
			lines = append(lines, fmt.Sprintf(`%s: this kernel, Linux %d.%d, may lack GUE, which came with 5.3: it refuses `+
				`the endpoints then; "ipip" needs no such kernel`,
				f.Service(x).DisplayName(), f.Node.Release.Major, f.Node.Release.Minor))
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// State returns what the function State does.
func (m *Mode) State(f *frontend.Frontends, c mode.Config) kernel.State {
	if s, ok := m.patched(f, c); ok {
		m.last, m.state = f, s
		return s
	}
	m.last, m.config = f, c
	s, w := state(f, c)
	m.state, m.repeated = s, w.repeated
	return s
}

// State returns what the kernel must look like to serve f.
func State(f *frontend.Frontends, c mode.Config) kernel.State {
	s, _ := state(f, c)
	return s
}

package iptables

import (
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
)

// Mode is mode iptables. The zero value is ready; one goroutine uses it. If only the
// backends of a few services changed, it writes the rules of these services alone. States
// that it returned do not change.
type Mode struct {
	last     *frontend.Frontends
	config   mode.Config
	large    bool
	fronts   [][]int32 // by service
	families []family
	state    kernel.State
}

// family is the last state of one family.
type family struct {
	parts  []part         // by service
	chains []kernel.Chain // sorted
}

var _ mode.Mode = (*Mode)(nil)

// Name returns "iptables".
func (*Mode) Name() string { return mode.IPTables }

// Needs returns what rules, and flows to endpoints that are gone, are reached by.
func (*Mode) Needs() []kernel.Adapter {
	return []kernel.Adapter{kernel.IPTablesAdapter, kernel.ConntrackAdapter}
}

// Periods returns those of iptables.syncPeriod and iptables.minSyncPeriod.
func (*Mode) Periods(c mode.Config) mode.Periods { return c.IPTables }

const routeLocalnet = "net.ipv4.conf.all.route_localnet"

// Sysctls returns the kernel parameters that State may contain.
func (*Mode) Sysctls() []string {
	return slices.Sorted(slices.Values(append(slices.Clone(mode.SysctlNames), routeLocalnet)))
}

// State returns what the kernel must look like to serve f.
func (m *Mode) State(f *frontend.Frontends, c mode.Config) kernel.State {
	changed, ok := m.since(f, c)
	if ok {
		m.patch(f, changed)
	} else {
		m.make(f, c)
	}
	m.last = f
	n := 0
	for _, x := range m.families {
		n += len(x.chains)
	}
	m.state.Chains = make([]kernel.Chain, 0, n)
	for _, x := range m.families {
		m.state.Chains = append(m.state.Chains, x.chains...)
	}
	return m.state
}

// since returns the services whose backends alone differ from the last state.
func (m *Mode) since(f *frontend.Frontends, c mode.Config) ([]frontend.Changed, bool) {
	if m.last == nil || !m.config.Same(c) || m.large != isLarge(f) {
		return nil, false
	}
	return f.Since(m.last)
}

// make writes everything.
func (m *Mode) make(f *frontend.Frontends, c mode.Config) {
	m.config, m.large, m.fronts, m.state = c, isLarge(f), mode.ByService(f), common(f, c)
	families := f.Config.Families()
	m.families = make([]family, len(families))
	for i, of := range families {
		w := newWriter(f, &m.config, of)
		x := &m.families[i]
		x.parts = make([]part, f.Table.Services.Len())
		x.chains = w.fixed()
		for s, fronts := range m.fronts {
			x.parts[s] = w.part(s, fronts)
			x.chains = append(x.chains, x.parts[s].chains...)
		}
		x.chains = sorted(append(x.chains, w.sharedChains(x.parts)...))
	}
}

// patch writes the rules of the changed services again.
func (m *Mode) patch(f *frontend.Frontends, changed []frontend.Changed) {
	for i, of := range f.Config.Families() {
		w := newWriter(f, &m.config, of)
		x := &m.families[i]
		parts := slices.Clone(x.parts)
		before, now := []kernel.Chain(nil), []kernel.Chain(nil)
		again := false
		for _, c := range changed {
			p := w.part(c.Service, m.fronts[c.Service])
			again = again || p.rules != parts[c.Service].rules
			before, now = append(before, parts[c.Service].chains...), append(now, p.chains...)
			parts[c.Service] = p
		}
		if again {
			now = append(now, w.sharedChains(parts)...)
		}
		*x = family{parts, replaced(x.chains, before, now)}
	}
	m.state.Policy.Cut, m.state.Policy.Quiesced = f.Cut(), mode.Quiesced(f, &m.state.Policy)
}

// replaced returns sorted chains with some removed and others added or replaced.
func replaced(chains, gone, now []kernel.Chain) []kernel.Chain {
	chains = slices.Clone(chains)
	for _, c := range gone {
		if slices.ContainsFunc(now, func(n kernel.Chain) bool { return n.Compare(c) == 0 }) {
			continue
		}
		if i, found := slices.BinarySearchFunc(chains, c, kernel.Chain.Compare); found {
			chains = slices.Delete(chains, i, i+1)
		}
	}
	for _, c := range now {
		if i, found := slices.BinarySearchFunc(chains, c, kernel.Chain.Compare); found {
			chains[i] = c
		} else {
			chains = slices.Insert(chains, i, c)
		}
	}
	return chains
}

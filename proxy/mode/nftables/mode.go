package nftables

import (
	"maps"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
)

// Mode is mode nftables. The zero value is ready; one goroutine uses it. If only the backends of a few services
// changed, it writes the entries of these services alone. States that it returned do not change.
type Mode struct {
	last     *frontend.Frontends
	config   mode.Config
	fronts   [][]int32 // by service
	families []family
	state    kernel.State
}

// family is the last state of one family.
type family struct {
	parts    []part               // by service
	hairpins map[kernel.Entry]int // services that have an entry of KUBE-LOOP-BACK
	classes  map[class]int        // frontends of each class
}

var _ mode.Mode = (*Mode)(nil)

// Name returns "nftables".
func (*Mode) Name() string { return mode.NFTables }

// Periods returns those of mode iptables.
func (*Mode) Periods(c mode.Config) mode.Periods { return c.IPTables }

// Sysctls returns the kernel parameters that State may contain.
func (*Mode) Sysctls() []string { return mode.SysctlNames }

// State returns what the kernel must look like to serve f.
func State(f *frontend.Frontends, c mode.Config) kernel.State { return new(Mode).State(f, c) }

// State returns what the function State does.
func (m *Mode) State(f *frontend.Frontends, c mode.Config) kernel.State {
	if changed, ok := m.since(f, c); ok {
		m.patch(f, changed)
	} else {
		m.make(f, c)
	}
	m.last = f
	return m.state
}

// since returns the services whose backends alone differ from the last state.
func (m *Mode) since(f *frontend.Frontends, c mode.Config) ([]frontend.Changed, bool) {
	if m.last == nil || !m.config.Same(c) {
		return nil, false
	}
	return f.Since(m.last)
}

// make writes everything.
func (m *Mode) make(f *frontend.Frontends, c mode.Config) {
	m.config, m.fronts, m.state = c, mode.ByService(f), mode.Ruled(f, c)
	m.families = make([]family, len(f.Config.Families()))
	var all []kernel.Entry
	for i, of := range f.Config.Families() {
		w := newWriter(f, &m.config, of)
		x := &m.families[i]
		*x = family{make([]part, len(m.fronts)), map[kernel.Entry]int{}, map[class]int{}}
		for s, fronts := range m.fronts {
			x.parts[s] = w.part(s, fronts)
			x.count(w, &x.parts[s], 1)
			all = append(all, x.parts[s].entries...)
		}
		for number := range f.HealthCheckPorts(of) {
			all = append(all, kernel.Entry{Set: w.set(kernel.HealthCheckNodePort), Port: number})
		}
		for _, v := range f.VIPs() {
			if kernel.FamilyOf(v.Addr) == of {
				all = append(all, kernel.Entry{Set: w.set(kernel.IPVSIPs), Addr: v.Addr})
			}
		}
	}
	slices.SortFunc(all, kernel.Entry.Compare)
	m.state.Entries = kernel.EntriesOf(slices.Compact(all))
	m.finish(f)
	m.state.Sort()
}

// patch writes the entries of the changed services again.
func (m *Mode) patch(f *frontend.Frontends, changed []frontend.Changed) {
	var gone, fresh []kernel.Entry
	for i, of := range f.Config.Families() {
		w := newWriter(f, &m.config, of)
		x := &m.families[i]
		loops := w.set(kernel.LoopBack)
		for _, c := range changed {
			was, is := x.parts[c.Service], w.part(c.Service, m.fronts[c.Service])
			x.parts[c.Service] = is
			x.count(w, &is, 1)
			x.count(w, &was, -1)
			kernel.Walk(was.entries, is.entries, func(a, b *kernel.Entry) bool { return *a == *b }, kernel.Entry.Compare,
				func(a, b *kernel.Entry) {
					switch {
					case b != nil:
						fresh = append(fresh, *b)
					case a.Set != loops || x.hairpins[*a] == 0:
						gone = append(gone, *a)
					}
				})
		}
	}
	if len(gone)+len(fresh) > 0 {
		kernel.SortFunc(gone, kernel.Entry.Compare)
		kernel.SortFunc(fresh, kernel.Entry.Compare)
		fresh = slices.CompactFunc(fresh, func(a, b kernel.Entry) bool { return a == b })
		gone = slices.DeleteFunc(slices.Compact(gone), func(e kernel.Entry) bool {
			_, stays := slices.BinarySearchFunc(fresh, e, kernel.Entry.Compare)
			return stays
		})
		m.state.Entries = m.state.Entries.With(gone, fresh)
	}
	m.state.Policy.Cut, m.state.Policy.Quiesced = f.Cut(), mode.Quiesced(f, &m.state.Policy)
	m.finish(f)
}

// count counts what a part has, or takes it out of the counts.
func (x *family) count(w *writer, p *part, n int) {
	for _, e := range p.entries {
		if e.Set == w.set(kernel.LoopBack) {
			add(x.hairpins, e, n)
		}
	}
	for _, c := range p.classes {
		add(x.classes, c, n)
	}
}

func add[K comparable](counts map[K]int, k K, n int) {
	if counts[k] += n; counts[k] == 0 {
		delete(counts, k)
	}
}

// finish adds the sets, which have room for the entries, and the chains.
func (m *Mode) finish(f *frontend.Frontends) {
	var sets []kernel.Set
	var chains []kernel.Chain
	m.state.Flowtables = nil
	for i, of := range f.Config.Families() {
		w := newWriter(f, &m.config, of)
		for name, typ := range setTypes {
			set := kernel.Set{Name: w.set(name), Type: typ, Family: of}
			if typ != kernel.BitmapPort {
				set.MaxElem = kernel.Capacity(m.state.Entries.Of(set.Name).Len())
			}
			sets = append(sets, set)
		}
		if links := w.links(); links != "" {
			m.state.Flowtables = append(m.state.Flowtables, kernel.Flowtable{Family: of, Links: links})
		}
		chains = append(chains, w.fixed()...)
		for c := range maps.Keys(m.families[i].classes) {
			chains = append(chains, w.chain(c))
		}
	}
	kernel.SortFunc(sets, kernel.Set.Compare)
	kernel.SortFunc(chains, kernel.Chain.Compare)
	m.state.Sets, m.state.Chains = sets, chains
}

// fixed returns the chains that do not depend on services. All that can be in table nat is there: it sees only the
// first packet of a connection.
func (w *writer) fixed() []kernel.Chain {
	services := w.To(kernel.ChainServices)
	names := w.Config.Names
	chains := []kernel.Chain{
		w.Chain("nat", "PREROUTING", services),
		w.Chain("nat", "OUTPUT", services),
		w.Chain("nat", "POSTROUTING", w.To(kernel.ChainPostrouting)),
		w.Ours("nat", kernel.ChainServices,
			"-j VMAP --map "+w.set(kernel.Frontends)+" dst,dst",
			"-m set --match-set "+w.set(kernel.IPVSIPs)+" dst -g "+names.Chain(kernel.ChainVIPFilter)),
		w.Ours("nat", kernel.ChainVIPFilter, w.guard()...),
		w.Chain("nat", names.Balancer(refuse), w.Reject()),
		w.Chain("nat", names.Balancer(discard), "-j DROP"),
		w.Postrouting("-m set --match-set " + w.set(kernel.LoopBack) + " dst,dst,src -j MASQUERADE"),
	}
	var forward []string
	if !w.Config.Conntrack.TCPBeLiberal {
		// A client would answer an endpoint's packet that was not translated back with a reset.
		forward = append(forward, "-m conntrack --ctstate INVALID -j DROP")
	}
	if w.links() != "" {
		forward = append(forward, offload(w.Config.Names, w.Family))
	}
	if len(forward) > 0 {
		chains = append(chains, w.Chain("filter", "FORWARD", w.To(kernel.ChainForward)),
			w.Ours("filter", kernel.ChainForward, forward...))
	}
	return chains
}

// guard refuses what is not served at a VIP, but for health check node ports. A bound VIP is an address of the host, so
// a program that listens on all addresses, such as sshd, would be reachable through it.
func (w *writer) guard() (rules []string) {
	rules = append(rules, "-p tcp -m set --match-set "+w.set(kernel.HealthCheckNodePort)+" dst -j ACCEPT")
	if w.Config.VIPPing {
		rules = append(rules, strings.TrimSuffix(w.Ping(), " ")+" -j ACCEPT")
	}
	return append(rules, w.Reject())
}

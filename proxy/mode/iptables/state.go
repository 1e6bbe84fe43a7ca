package iptables

import (
	"net/netip"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
)

// State returns what the kernel must look like to serve f.
func State(f *frontend.Frontends, c mode.Config) kernel.State { return new(Mode).State(f, c) }

// common returns the state without chains.
func common(f *frontend.Frontends, c mode.Config) kernel.State {
	s := mode.Ruled(f, c)
	if c.LocalhostNodePorts {
		s.Sysctls = append(s.Sysctls, kernel.Sysctl{Name: routeLocalnet, Value: "1"})
	}
	s.Sort()
	return s
}

// writer writes the rules of one family.
type writer struct {
	mode.Scope
	workloads string               // matches what comes from this node's own
	large     bool                 // too many endpoints for a comment each
	rules     lines                // a buffer for the rules of endpoints
	shares    map[[2]uint64]string // by weight and sum of weights: see port.share
}

func newWriter(f *frontend.Frontends, c *mode.Config, family kernel.Family) *writer {
	w := &writer{Scope: mode.Scope{Frontends: f, Config: c, Family: family}, large: isLarge(f),
		shares: map[[2]uint64]string{}}
	w.workloads = w.Local()
	return w
}

// lines is the text of rules, one a line.
type lines []byte

// add adds a rule, which the words together are.
func (l *lines) add(words ...string) {
	if len(*l) > 0 {
		*l = append(*l, '\n')
	}
	for _, w := range words {
		*l = append(*l, w...)
	}
}

// addTo adds a rule that ends in an address.
func (l *lines) addTo(to netip.AddrPort, words ...string) {
	l.add(words...)
	*l = to.AppendTo(*l)
}

func (l lines) String() string { return string(l) }

// manyEndpoints is kube-proxy's limit, beyond which rules for endpoints have no comments.
const manyEndpoints = 1000

func isLarge(f *frontend.Frontends) bool {
	n := 0
	for i := range f.Table.Services.Len() {
		n += len(f.Table.Services.At(i).Endpoints)
	}
	return n > manyEndpoints
}

// sharedChains returns the chains in which many services have rules, made of all parts.
func (w *writer) sharedChains(parts []part) []kernel.Chain {
	own := [shared]struct {
		table string
		name  kernel.ChainName
		last  []string
	}{
		natServices:    {"nat", kernel.ChainServices, w.nodePorts()},
		natNodePorts:   {"nat", kernel.ChainNodePorts, nil},
		filterServices: {"filter", kernel.ChainServices, nil},
		filterExternal: {"filter", kernel.ChainExternalServices, nil},
		filterFirewall: {"filter", kernel.ChainProxyFirewall, nil},
	}
	chains := make([]kernel.Chain, shared)
	for i, c := range own {
		chains[i] = w.Ours(c.table, c.name)
		chains[i].Rules = joined(parts, i, c.last)
	}
	return chains
}

// joined joins the rules of all parts in one shared chain, and those that come last.
func joined(parts []part, chain int, last []string) string {
	end := strings.Join(last, "\n")
	n := len(end)
	for i := range parts {
		n += len(parts[i].rules[chain])
	}
	var b strings.Builder
	b.Grow(n)
	for i := range parts {
		b.WriteString(parts[i].rules[chain])
	}
	b.WriteString(end)
	return strings.TrimSuffix(b.String(), "\n")
}

// sorted sorts the chains of a family.
func sorted(chains []kernel.Chain) []kernel.Chain {
	kernel.SortFunc(chains, kernel.Chain.Compare)
	return chains
}

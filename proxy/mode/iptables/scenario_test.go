package iptables

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

// TestScenarios runs the "want iptables" sections of testdata/rules.
func TestScenarios(t *testing.T) {
	modetest.Run(t, "iptables", func(t *testing.T, s *modetest.Scenario, w modetest.Section) (string, error) {
		state := stateOf(s.Table, s.Node, s.Config)
		if _, err := kernel.ParseObserved(state.String()); err != nil {
			t.Errorf("the state's text does not read back: %v", err)
		}
		switch w.What {
		case "":
			return rulesOf(state, s.Node), nil
		case "sysctls":
			return kernel.State{Sysctls: state.Sysctls}.String(), nil
		case "trace":
			return modetest.Traced(state, s.Node, w.Text)
		}
		return "", fmt.Errorf("want iptables %s: want nothing, sysctls or trace", w.What)
	})
}

// rulesOf returns in what the rules of a state differ from those of an empty table in the
// default configuration: -A for rules that it has more, -D for those that it lacks.
func rulesOf(s kernel.State, n kernel.Node) string {
	none := stateOf(sources.Table{}, kernel.Node{Name: n.Name}, modetest.Defaults())
	var b strings.Builder
	title := ""
	kernel.Walk(s.Chains, none.Chains, func(a, b *kernel.Chain) bool { return *a == *b }, kernel.Chain.Compare, func(w, h *kernel.Chain) {
		var all, usual kernel.Chain
		if w != nil {
			all = *w
		}
		if h != nil {
			usual = *h
		}
		name := cmp.Or(all.Name, usual.Name)
		lines := append(only(usual.Rules, all.Rules, "-D "+name+" "), only(all.Rules, usual.Rules, "-A "+name+" ")...)
		if lines == nil {
			return
		}
		if now := fmt.Sprintf("# %s %s\n", cmp.Or(all.Family, usual.Family), cmp.Or(all.Table, usual.Table)); now != title {
			title = now
			b.WriteString(title)
		}
		b.WriteString(strings.Join(lines, "\n") + "\n")
	})
	return b.String()
}

// only returns the rules that a has and b does not, each with a prefix.
func only(a, b, prefix string) []string {
	var lines []string
	for rule := range strings.SplitSeq(a, "\n") {
		if rule != "" && !slices.Contains(strings.Split(b, "\n"), rule) {
			lines = append(lines, prefix+rule)
		}
	}
	return lines
}

// stateOf returns the state for a table.
func stateOf(t sources.Table, n kernel.Node, c mode.Config) kernel.State {
	return State(frontend.List(t, n, c.Frontends), c)
}

// Both modes bind the same VIPs, and answer for them on the same links.
func TestVIPsAreThoseOfModeIPVS(t *testing.T) {
	modetest.Run(t, "iptables", func(t *testing.T, s *modetest.Scenario, w modetest.Section) (string, error) {
		ours, theirs := stateOf(s.Table, s.Node, s.Config), ipvs.State(frontend.List(s.Table, s.Node, s.Config.Frontends), s.Config)
		ours.Policy.DrainVirtuals, ours.Policy.DrainRules, ours.Policy.Quiesced = false, false, nil // which only this mode has to drain
		vips := func(s kernel.State) string {
			s.Sysctls = slices.DeleteFunc(slices.Clone(s.Sysctls), func(s kernel.Sysctl) bool {
				return strings.HasPrefix(s.Name, "net.ipv4.vs.") || s.Name == routeLocalnet
			})
			return kernel.State{Sysctls: s.Sysctls, Links: s.Links, Addrs: s.Addrs, Routes: s.Routes, Neighbors: s.Neighbors, Policy: s.Policy}.String()
		}
		if got, want := vips(ours), vips(theirs); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		return w.Text, nil
	})
}

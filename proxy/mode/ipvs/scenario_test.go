package ipvs

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

// TestScenarios runs every testdata/rules/*.txtar: a service table, a node and a
// configuration, and the state for them. The README there explains the sections.
func TestScenarios(t *testing.T) {
	modetest.Run(t, "", func(t *testing.T, s *modetest.Scenario, w modetest.Section) (string, error) {
		state := stateOf(s.Table, s.Node, s.Config)
		if _, err := kernel.ParseObserved(state.String()); err != nil {
			t.Errorf("the state's text does not read back: %v", err)
		}
		switch w.What {
		case "health":
			return healthText(frontend.List(s.Table, s.Node, s.Config.Frontends).HealthChecks()), nil
		case "bridged":
			return lines(mode.Bridged(s.Table, s.Node, s.Config)), nil
		case "trace":
			return modetest.Traced(state, s.Node, w.Text)
		}
		return section(state, w.What)
	})
}

func lines(all []string) string {
	var b strings.Builder
	for _, line := range all {
		b.WriteString(line + "\n")
	}
	return b.String()
}

// stateOf returns the state for a table.
func stateOf(t sources.Table, n kernel.Node, c mode.Config) kernel.State {
	return State(frontend.List(t, n, c.Frontends), c)
}

// section returns the part of a state's canonical text that a section names.
func section(s kernel.State, what string) (string, error) {
	part := kernel.State{}
	kind, arg, _ := strings.Cut(what, " ")
	switch kind {
	case "state":
		part = s
	case "policy":
		part.Policy = s.Policy
	case "sysctls":
		part.Sysctls = s.Sysctls
	case "timeouts":
		part.Timeouts = s.Timeouts
	case "daemons":
		part.Daemons = s.Daemons
	case "sets":
		part.Sets = s.Sets
	case "entries":
		part.Entries = s.Entries.Where(func(e kernel.Entry) bool { return arg == "" || e.Set == arg })
	case "virtuals":
		part.Virtuals, part.Reals = s.Virtuals, s.Reals
	case "addrs":
		part.Links, part.Addrs, part.Routes, part.Neighbors = s.Links, s.Addrs, s.Routes, s.Neighbors
	case "chain", "chain6":
		family := kernel.IPv4
		if kind == "chain6" {
			family = kernel.IPv6
		}
		part.Chains = slices.DeleteFunc(slices.Clone(s.Chains), func(c kernel.Chain) bool {
			return c.Family != family || c.Table+" "+c.Name != arg
		})
		if len(part.Chains) != 1 {
			return "", fmt.Errorf("%s: no such chain", what)
		}
		return part.Chains[0].Text(), nil
	default:
		return "", fmt.Errorf("want %s: not one of state, policy, sysctls, timeouts, sets, entries [SET], virtuals, addrs, chain|chain6 TABLE NAME, health, trace", what)
	}
	return part.String(), nil
}

// healthText has one line per health check node port: its number, its service and
// its answer.
func healthText(checks []frontend.HealthCheck) string {
	var text strings.Builder
	for _, c := range checks {
		fmt.Fprintf(&text, "%d %s/%s: %d local endpoints\n", c.Port, c.Namespace, c.Name, c.LocalEndpoints)
	}
	return text.String()
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

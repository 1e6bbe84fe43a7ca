package ipvs

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

var update = flag.Bool("update", false, "rewrite the want sections of the scenarios")

const scenarios = "../../../testdata/rules"

// TestScenarios runs every testdata/rules/*.txtar: a service table, a node and a
// configuration, and the state for them. The README there explains the sections.
func TestScenarios(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(scenarios, "*.txtar"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios in %s: %v", scenarios, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) { runScenario(t, path) })
	}
}

func runScenario(t *testing.T, path string) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(strings.TrimSpace(string(archive.Comment))) == 0 {
		t.Error("no comment that says what is tested and why")
	}
	table, node, config := input(t, archive)
	state := stateOf(table, node, config)
	if _, err := kernel.ParseObserved(state.String()); err != nil {
		t.Errorf("the state's text does not read back: %v", err)
	}
	wants := 0
	for i := range archive.Files {
		f := &archive.Files[i]
		what, ok := strings.CutPrefix(f.Name, "want ")
		if !ok {
			continue
		}
		wants++
		var got string
		switch what {
		case "health":
			got = healthText(frontend.List(table, node, config.Frontends).HealthChecks())
		case "bridged":
			for _, line := range mode.Bridged(table, node, config) {
				got += line + "\n"
			}
		case "trace":
			got, err = traced(state, node, string(f.Data))
		default:
			got, err = section(state, what)
		}
		switch {
		case err != nil:
			t.Error(err)
		case *update:
			f.Data = []byte(got)
		case got != string(f.Data):
			t.Errorf("%s:\n%swant:\n%s", what, got, f.Data)
		}
	}
	if wants == 0 {
		t.Error("no want section")
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// input reads the table, the node and the configuration of a scenario.
func input(t *testing.T, archive *txtar.Archive) (sources.Table, kernel.Node, mode.Config) {
	t.Helper()
	var table sources.Table
	var cut []string
	node := kernel.Node{Name: "n1", Release: kernel.Release{Major: 6, Minor: 1}}
	config := defaults()
	for _, f := range archive.Files {
		switch {
		case f.Name == "services.toml":
			var problems []sources.Problem
			table, _, problems = file.Decode(f.Name, f.Data)
			for _, p := range problems {
				t.Error(p)
			}
		case f.Name == "cut":
			cut = strings.Fields(string(f.Data))
		case f.Name == "node":
			o, err := kernel.ParseObserved(string(f.Data))
			if err != nil {
				t.Fatalf("node: %v", err)
			}
			node = o.Node
		case f.Name == "config":
			md, err := toml.Decode(string(f.Data), &config)
			if err != nil {
				t.Fatalf("config: %v", err)
			}
			rest, err := toml.Decode(string(f.Data), &config.Frontends)
			if err != nil {
				t.Fatalf("config: %v", err)
			}
			for _, key := range md.Undecoded() {
				if slices.ContainsFunc(rest.Undecoded(), func(k toml.Key) bool { return slices.Equal(k, key) }) {
					t.Errorf("config: unknown key %s", key)
				}
			}
		case !strings.HasPrefix(f.Name, "want "):
			t.Errorf("section %q: not one of services.toml, cut, node, config, want ...", f.Name)
		}
	}
	for i := range table.Services {
		for k := range table.Services[i].Endpoints {
			if e := &table.Services[i].Endpoints[k]; slices.Contains(cut, e.Addr.String()) {
				e.Weight, e.Cut = 0, true
			}
		}
	}
	merged, _ := sources.Merge(onNode(node), table)
	return merged, node, config
}

// onNode returns the facts that a merge needs of a node.
func onNode(n kernel.Node) sources.HostFacts {
	f := sources.HostFacts{Gateways: n.Gateways}
	for _, a := range n.Addrs {
		f.Addrs = append(f.Addrs, a.Prefix.Addr())
	}
	return f
}

// stateOf returns the state for a table.
func stateOf(t sources.Table, n kernel.Node, c mode.Config) kernel.State {
	return State(frontend.List(t, n, c.Frontends), c)
}

// defaults returns the defaults of the configuration.
func defaults() mode.Config {
	return mode.Config{
		Frontends:     frontend.Config{IPv6: true, Scheduler: "rr"},
		Names:         kernel.DefaultNames,
		MasqueradeBit: 14,
		VIPPing:       true,
	}
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
	case "sets":
		part.Sets = s.Sets
	case "entries":
		part.Entries = slices.DeleteFunc(slices.Clone(s.Entries), func(e kernel.Entry) bool { return arg != "" && e.Set != arg })
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

func addr(s string) netip.Addr     { return netip.MustParseAddr(s) }
func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// big returns a table of n services with m endpoints each.
func big(n, m int) sources.Table {
	var t sources.Table
	for i := range n {
		s := sources.Service{
			Namespace: "default", Name: fmt.Sprintf("s%05d", i), Type: sources.ClusterIP,
			ClusterIPs:            []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})},
			Ports:                 []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 8080}},
			ExternalTrafficPolicy: sources.Cluster, InternalTrafficPolicy: sources.Cluster,
			AffinityTimeout: sources.DefaultAffinityTimeout,
		}
		for j := range m {
			s.Endpoints = append(s.Endpoints, sources.Endpoint{
				Addr:     netip.AddrFrom4([4]byte{172, 16 + byte(i>>12), byte(i >> 4), byte(i)<<4 | byte(j)}),
				Ports:    []sources.EndpointPort{{Protocol: sources.TCP, Port: 8080}},
				NodeName: fmt.Sprintf("n%d", j), Weight: 1, Ready: true, Serving: true,
			})
		}
		t.Services = append(t.Services, s)
	}
	return t
}

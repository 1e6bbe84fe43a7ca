package nft

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/proxy/mode/nftables"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

// open opens our tables in a namespace of the test.
func open(t testing.TB, n kernel.Names) *Table {
	t.Helper()
	kerneltest.NewNamespace(t)
	table, err := Open(nil, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { table.Close() })
	return table
}

// tablesOf returns what package nft writes of a state.
func tablesOf(s kernel.State) kernel.State {
	sets := slices.Clone(s.Sets)
	for i := range sets {
		if sets[i].Type != kernel.BitmapPort {
			sets[i].MaxElem = 1<<32 - 1
		}
	}
	return kernel.State{Sets: sets, Entries: s.Entries, Chains: s.Chains}
}

func observed(t testing.TB, table *Table) kernel.Observed {
	t.Helper()
	var o kernel.Observed
	var err error
	if o.Sets, o.Entries, err = table.ReadSets(); err == nil {
		o.Chains, err = table.ReadChains()
	}
	if err != nil {
		t.Fatal(err)
	}
	o.Names, o.Fresh, o.Native = table.names, true, true
	return o
}

// ops returns the plan from what is there to a state.
func ops(t testing.TB, table *Table, s kernel.State) []kernel.Op {
	t.Helper()
	p := plan.Once(s, observed(t, table))
	return slices.DeleteFunc(p.Ops, func(o kernel.Op) bool { return o.Object.Kind() == kernel.KindFlow })
}

// plain is a state's text without comments: a chain is not written for another one.
func plain(s kernel.State) string {
	s.Chains = slices.Clone(s.Chains)
	for i := range s.Chains {
		var rules []string
		for rule := range strings.SplitSeq(s.Chains[i].Rules, "\n") {
			rules = append(rules, kernel.WithoutComment(rule))
		}
		s.Chains[i].Rules = strings.Join(rules, "\n")
	}
	return s.String()
}

func apply(t testing.TB, table *Table, s kernel.State) {
	t.Helper()
	all := ops(t, table, s)
	for i, err := range table.Apply(all) {
		if err != nil {
			t.Fatalf("%s: %v\n%s", all[i], err, kerneltest.Run(t, "nft", "list", "ruleset"))
		}
	}
	if got := observed(t, table).State; plain(got) != plain(s) {
		t.Fatalf("read\n%s\nwant\n%s", got, s)
	}
	if again := ops(t, table, s); len(again) > 0 {
		t.Fatalf("a second plan: %v", again)
	}
}

// layouts are what writes the state of a scenario.
var layouts = map[string]func(*frontend.Frontends, mode.Config) kernel.State{
	"ipvs": ipvs.State,
	"lean": func(f *frontend.Frontends, c mode.Config) kernel.State {
		c.Lean = true
		return ipvs.State(f, c)
	},
	"nftables": nftables.State,
}

// scenarios calls f with the state of each scenario of testdata/rules in each layout.
func scenarios(t *testing.T, f func(t *testing.T, names kernel.Names, s kernel.State)) {
	for _, path := range scenarioFiles(t) {
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		for _, layout := range slices.Sorted(maps.Keys(layouts)) {
			t.Run(name+"/"+layout, func(t *testing.T) {
				s := modetest.Scenario{Name: name}
				s.Read(t)
				s.Config.Native = true
				fronts := frontend.List(s.Table, s.Node, s.Config.Frontends)
				if layout == "nftables" && slices.ContainsFunc(fronts.Fronts, func(x frontend.Front) bool {
					return x.Traits.Has(frontend.Marked)
				}) {
					return // a merge withholds it
				}
				f(t, s.Config.Names, tablesOf(layouts[layout](fronts, s.Config)))
			})
		}
	}
}

func scenarioFiles(t *testing.T) []string {
	paths, err := filepath.Glob("../../testdata/rules/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	return paths
}

// TestScenarios: what modes ipvs and nftables want is written and read back, is readable for nft, and gone in the end.
func TestScenarios(t *testing.T) {
	seen := make(map[string]bool) // rules: nft takes a tenth of a second
	scenarios(t, func(t *testing.T, names kernel.Names, s kernel.State) {
		table := open(t, names)
		apply(t, table, s)
		if rules := (kernel.State{Chains: s.Chains}).String(); !seen[rules] {
			seen[rules] = true
			if len(seen)%2 == 0 {
				readable(t, table, s)
			} else {
				sameText(t, table, s)
				apply(t, table, s)
			}
		}
		apply(t, table, kernel.State{})
		if there, err := table.Families(); there != nil || err != nil {
			t.Errorf("a table is left: %v, %v", there, err)
		}
	})
}

// readable: nft lists the tables, as text and as JSON, and takes the text. Its rules have lost the words that we keep
// with them, so they are written once more.
func readable(t *testing.T, table *Table, s kernel.State) {
	t.Helper()
	list := kerneltest.Run(t, "nft", "list", "ruleset")
	kerneltest.Run(t, "nft", "-j", "list", "ruleset")
	kerneltest.Run(t, "nft", "flush", "ruleset")
	file := filepath.Join(t.TempDir(), "ruleset")
	if err := os.WriteFile(file, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("nft", "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("nft -f: %v\n%s\n%s", err, out, list)
	}
	if again := kerneltest.Run(t, "nft", "list", "ruleset"); again != list {
		t.Fatalf("nft lists\n%s\nafter\n%s", again, list)
	}
	apply(t, table, s)
	if again := kerneltest.Run(t, "nft", "list", "ruleset"); again != list {
		t.Fatalf("nft lists\n%s\nafter\n%s", again, list)
	}
}

// sameText: nft makes of the text of a plan what Apply makes of the plan.
func sameText(t *testing.T, table *Table, s kernel.State) {
	t.Helper()
	names := table.names
	kerneltest.Run(t, "nft", "flush", "ruleset")
	first := []string{"add table ip " + names.Table(), "add table ip6 " + names.Table()}
	var elements, rules []string
	for _, o := range ops(t, table, s) {
		for line := range strings.SplitSeq(Text(o, names), "\n") {
			switch {
			case strings.HasPrefix(line, "add element"):
				elements = append(elements, line)
			case strings.HasPrefix(line, "add rule"):
				rules = append(rules, line)
			default:
				first = append(first, line)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "plan")
	text := strings.Join(slices.Concat(first, elements, rules), "\n") + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	kerneltest.Run(t, "nft", "-f", file)
	want := kerneltest.Run(t, "nft", "list", "ruleset")
	kerneltest.Run(t, "nft", "flush", "ruleset")
	apply(t, table, s)
	kerneltest.Run(t, "nft", "add table ip "+names.Table()+"; add table ip6 "+names.Table())
	if got := kerneltest.Run(t, "nft", "list", "ruleset"); normal(got) != normal(want) {
		t.Errorf("nft lists\n%s\nof the text\n%s\n%s", got, text, want)
	}
	kerneltest.Run(t, "nft", "flush", "ruleset")
}

// normal sorts the lines of elements, which nft lists in the order of a hash with a seed.
func normal(list string) string {
	lines := strings.Split(strings.ReplaceAll(list, ", ", "\n"), "\n")
	for i, l := range lines {
		lines[i] = strings.Trim(strings.TrimPrefix(strings.TrimSpace(l), "elements = {"), " ,}")
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

package traffic

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/svcproxy/svcproxy/proxy/config"
)

// unexplained are the rows of ../README.md that no packet shows.
var unexplained = []string{
	"duplicate endpoints",       // one is left: its backend is like any other
	"removal over UDP and SCTP", // about flows that exist
}

// TestEveryRowHasItsTests holds the table of service semantics in ../README.md to
// the tree: each row names scenarios and tests, what it names is there, and
// `svcproxy explain` has a test of one of its scenarios.
func TestEveryRowHasItsTests(t *testing.T) {
	tests, explained := testNames(t, "."), explainedScenarios(t)
	for _, cells := range tableOf(t, "service semantics") {
		row, scenarios, named := cells[0], quoted(cells[1]), quoted(cells[2])
		if (len(scenarios) == 0 || len(named) == 0) && cells[1] != "see below" {
			t.Errorf("the row of %s lacks scenarios or tests", row)
		}
		for _, s := range scenarios {
			if _, err := os.Stat(filepath.Join("..", "rules", s+".txtar")); err != nil {
				t.Error(err)
			}
		}
		has := slices.ContainsFunc(scenarios, func(s string) bool { return explained[s] })
		if except := slices.Contains(unexplained, row); has == except {
			t.Errorf("the row of %s: scenario of explain: %t, exception: %t", row, has, except)
		}
		for _, n := range named {
			if !tests[n] {
				t.Errorf("the row of %s names %s, which is no test here", row, n)
			}
		}
	}
}

// untested are the keys whose row of ../README.md may be empty: they have no
// effect in this version, and warn when they are set.
var untested = []string{"showHiddenMetricsForVersion", "logging.flushFrequency"}

// TestEveryKeyHasItsTests holds the table of keys in ../README.md to the keys of
// the configuration, and to the tree.
func TestEveryKeyHasItsTests(t *testing.T) {
	rows := map[string]bool{}
	for _, cells := range tableOf(t, "key") {
		tests := quoted(cells[1])
		for _, key := range quoted(cells[0]) {
			rows[key] = true
			if len(tests) == 0 && !slices.Contains(untested, key) {
				t.Errorf("no test holds the effect of %s", key)
			}
		}
		for _, test := range tests {
			if !exists(t, test) {
				t.Errorf("the row of %s names %s, which is not in the tree", cells[0], test)
			}
		}
	}
	for _, key := range config.Keys() {
		if !rows[key.Path] {
			t.Errorf("../README.md has no row of %s", key.Path)
		}
		delete(rows, key.Path)
	}
	for key := range rows {
		t.Errorf("../README.md has a row of %s, which is no key", key)
	}
}

// tableOf are the cells of each row of the table in ../README.md whose first
// column has this head.
func tableOf(t *testing.T, head string) (rows [][]string) {
	t.Helper()
	readme, err := os.ReadFile("../README.md")
	must(t, err)
	_, table, found := strings.Cut(string(readme), "\n| "+head+" |")
	if !found {
		t.Fatalf("../README.md has no table of %s", head)
	}
	columns, _, _ := strings.Cut(table, "\n")
	for line := range strings.Lines(table) {
		if line == "\n" {
			break
		}
		if row, isRow := strings.CutPrefix(line, "| "); isRow {
			cells := strings.Split(strings.TrimSuffix(row, "|\n"), "|")
			if want := strings.Count(columns, "|") + 1; len(cells) != want {
				t.Fatalf("../README.md: %d cells, want %d: %s", len(cells), want, line)
			}
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	if len(rows) == 0 {
		t.Fatalf("the table of %s in ../README.md is empty", head)
	}
	return rows
}

var backquotes = regexp.MustCompile("`([^`]+)`")

// quoted are the words of a text between backquotes.
func quoted(text string) (words []string) {
	for _, m := range backquotes.FindAllStringSubmatch(text, -1) {
		words = append(words, m[1])
	}
	return words
}

// explainedScenarios are those that the tests of proxy/explain ask about.
func explainedScenarios(t *testing.T) map[string]bool {
	t.Helper()
	paths, err := filepath.Glob("../../proxy/explain/testdata/*.txtar")
	must(t, err)
	names := map[string]bool{}
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		must(t, err)
		for _, f := range archive.Files {
			if f.Name == "scenario" {
				names[strings.Fields(string(f.Data))[0]] = true
			}
		}
	}
	return names
}

// exists reports whether a test is there: TestName of this package, package.TestName,
// or the scenario folder/name.
func exists(t *testing.T, name string) bool {
	t.Helper()
	if pkg, test, found := strings.Cut(name, ".Test"); found {
		return testNames(t, filepath.Join("../..", pkg))["Test"+test]
	}
	if !strings.Contains(name, "/") {
		return testNames(t, ".")[name]
	}
	_, err := os.Stat(filepath.Join("..", name+".txtar"))
	return err == nil
}

// testNames are the tests of the package in a folder, by its files.
func testNames(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	must(t, err)
	names := map[string]bool{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		must(t, err)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(text), -1) {
			names[m[1]] = true
		}
	}
	return names
}

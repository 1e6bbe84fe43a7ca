package traffic

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/proxy/config"
)

// TestEveryRowHasItsTests holds the table of ../README.md to the tree: each row
// names scenarios and tests, and what it names is there.
func TestEveryRowHasItsTests(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	must(t, err)
	tests := testNames(t, ".")
	quoted := regexp.MustCompile("`([^`]+)`")
	rows, inside := 0, false
	for line := range strings.Lines(string(readme)) {
		cells := strings.Split(line, "|")
		if header := strings.Contains(line, "scenarios in `rules/`"); header || len(cells) != 5 {
			inside = header
			continue
		}
		if !inside || strings.HasPrefix(cells[1], "---") {
			continue
		}
		rows++
		scenarios, named := quoted.FindAllStringSubmatch(cells[2], -1), quoted.FindAllStringSubmatch(cells[3], -1)
		if (len(scenarios) == 0 || len(named) == 0) && !strings.Contains(cells[2], "see below") {
			t.Errorf("the row of %s lacks scenarios or tests", strings.TrimSpace(cells[1]))
		}
		for _, s := range scenarios {
			if _, err := os.Stat(filepath.Join("..", "rules", s[1]+".txtar")); err != nil {
				t.Error(err)
			}
		}
		for _, n := range named {
			if !tests[n[1]] {
				t.Errorf("the row of %s names %s, which is no test here", strings.TrimSpace(cells[1]), n[1])
			}
		}
	}
	if rows == 0 {
		t.Error("no table in ../README.md")
	}
}

// untested are the keys whose row of ../README.md may be empty: they have no
// effect in this version, and warn when they are set.
var untested = []string{"showHiddenMetricsForVersion", "logging.flushFrequency"}

// TestEveryKeyHasItsTests holds the second table of ../README.md to the keys of
// the configuration, and to the tree.
func TestEveryKeyHasItsTests(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	must(t, err)
	quoted := regexp.MustCompile("`([^`]+)`")
	rows := map[string]bool{}
	for line := range strings.Lines(string(readme)) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			continue
		}
		tests := quoted.FindAllStringSubmatch(cells[2], -1)
		for _, key := range quoted.FindAllStringSubmatch(cells[1], -1) {
			rows[key[1]] = true
			if len(tests) == 0 && !slices.Contains(untested, key[1]) {
				t.Errorf("no test holds the effect of %s", key[1])
			}
		}
		for _, test := range tests {
			if !exists(t, test[1]) {
				t.Errorf("the row of%snames %s, which is not in the tree", cells[1], test[1])
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

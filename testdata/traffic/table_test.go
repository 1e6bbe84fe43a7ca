package traffic

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryRowHasItsTests holds the table of ../README.md to the tree: each row
// names scenarios and tests, and what it names is there.
func TestEveryRowHasItsTests(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	must(t, err)
	tests := testNames(t)
	quoted := regexp.MustCompile("`([^`]+)`")
	rows := 0
	for line := range strings.Lines(string(readme)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.HasPrefix(cells[1], "---") || strings.Contains(line, "`rules/`") {
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

// testNames are the tests of this package, by its files.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
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

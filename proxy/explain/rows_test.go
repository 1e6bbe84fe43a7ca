package explain_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// unexplained are the rows of testdata/README.md that no packet shows.
var unexplained = []string{
	"duplicate endpoints",       // one is left: its backend is like any other
	"removal over UDP and SCTP", // about flows that exist
}

// TestEveryRowHasAScenario: of the scenarios that a row of testdata/README.md names, one is explained.
func TestEveryRowHasAScenario(t *testing.T) {
	explained := map[string]bool{}
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			if f.Name == "scenario" {
				explained[strings.Fields(string(f.Data))[0]] = true
			}
		}
	}
	readme, err := os.ReadFile("../../testdata/README.md")
	if err != nil {
		t.Fatal(err)
	}
	row, quoted := regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \| [^|]+ \|$`), regexp.MustCompile("`([^`]+)`")
	rows := row.FindAllStringSubmatch(string(readme), -1)
	if len(rows) < 20 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, cells := range rows[1:] { // below the head
		named := quoted.FindAllStringSubmatch(cells[2], -1)
		has := slices.ContainsFunc(named, func(s []string) bool { return explained[s[1]] })
		if except := slices.Contains(unexplained, cells[1]); has == except {
			t.Errorf("the row of %s: scenario of explain: %t, exception: %t", cells[1], has, except)
		}
	}
}

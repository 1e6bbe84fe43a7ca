package plan_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

var update = flag.Bool("update", false, "rewrite the plan sections of the scenarios")

const plans = "../../testdata/plan"

// TestPlans runs every testdata/plan/*.txtar: a wanted state, a reading, and the plan
// from one to the other.
func TestPlans(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(plans, "*.txtar"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios in %s: %v", plans, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if len(a.Comment) == 0 || len(a.Files) != 3 {
				t.Fatal("want a comment with the reason, and the sections want, have and plan")
			}
			want := parse(t, a.Files[0])
			have, memory, now, err := kernel.ParseAll(string(a.Files[1].Data))
			if err != nil {
				t.Fatalf("section %s: %v", a.Files[1].Name, err)
			}
			have.Names = kernel.DefaultNames
			p, _ := plan.Diff(want.State, have, memory, now)
			got := p.String()
			if *update {
				a.Files[2].Data = []byte(got)
				if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want := string(a.Files[2].Data); got != want {
				t.Errorf("plan:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func parse(t *testing.T, f txtar.File) kernel.Observed {
	t.Helper()
	o, err := kernel.ParseObserved(string(f.Data))
	if err != nil {
		t.Fatalf("section %s: %v", f.Name, err)
	}
	return o
}

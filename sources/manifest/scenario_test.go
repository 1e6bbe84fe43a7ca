package manifest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

var update = flag.Bool("update", false, "write what came out into the scenario files")

// TestScenarios runs each testdata/scenario/*.txtar. *.yaml and *.json are objects, and "services.toml" makes the same
// table but for the origins. "problems" are about what was left out, and "nodes" are the Node objects. This node is n1.
func TestScenarios(t *testing.T) {
	paths, err := filepath.Glob("testdata/scenario/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			table, texts := play(a)
			same(t, table, a)
			for _, name := range []string{"problems", "nodes"} {
				golden(t, a, name, texts[name])
			}
			if *update {
				if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// play returns the table of an archive's objects, and the rest as text.
func play(a *txtar.Archive) (sources.Table, map[string]string) {
	var all Objects
	var problems []sources.Problem
	for _, f := range a.Files {
		if ext := filepath.Ext(f.Name); ext == ".yaml" || ext == ".json" {
			o, bad := Decode(f.Name, f.Data)
			problems = append(problems, bad...)
			all.Services = append(all.Services, o.Services...)
			all.Slices = append(all.Slices, o.Slices...)
			all.Nodes = append(all.Nodes, o.Nodes...)
		}
	}
	table, left := Table(all, "n1")
	var texts [2]strings.Builder
	for _, p := range append(problems, left...) {
		fmt.Fprintln(&texts[0], p.Error())
	}
	for _, o := range all.Nodes {
		n := o.Node()
		fmt.Fprintf(&texts[1], "%s zone=%q addresses=%v podCIDRs=%v eligible=%t leaving=%q\n", n.Name, n.Zone, n.Addresses, n.PodCIDRs, n.Eligible(), n.Leaving)
	}
	return table, map[string]string{"problems": texts[0].String(), "nodes": texts[1].String()}
}

// same compares a table with the archive's services.toml.
func same(t *testing.T, got sources.Table, a *txtar.Archive) {
	var want sources.Table
	if i := index(a, "services.toml"); i >= 0 {
		var problems []sources.Problem
		if want, _, problems = file.Decode("services.toml", a.Files[i].Data); len(problems) > 0 {
			t.Fatal(problems)
		}
	}
	for _, t := range []sources.Table{got, want} {
		for _, s := range t.Services.All() {
			s.Origin, s.Weighted = sources.Origin{}, false // weights are of files alone
		}
	}
	for i := range max(got.Services.Len(), want.Services.Len()) {
		var g, w sources.Service
		if i < got.Services.Len() {
			g = *got.Services.At(i)
		}
		if i < want.Services.Len() {
			w = *want.Services.At(i)
		}
		if !reflect.DeepEqual(g, w) {
			t.Errorf("got\n%+v\nwant\n%+v", g, w)
		}
	}
}

func index(a *txtar.Archive, name string) int {
	return slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == name })
}

func golden(t *testing.T, a *txtar.Archive, name, got string) {
	i := index(a, name)
	switch {
	case *update && i >= 0:
		a.Files[i].Data = []byte(got)
	case *update && got != "":
		a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(got)})
	case i < 0 && got != "":
		t.Errorf("unexpected %s:\n%s", name, got)
	case i >= 0 && got != string(a.Files[i].Data):
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, a.Files[i].Data)
	}
}

package convert

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

var update = flag.Bool("update", false, "write what came out into testdata")

// TestScenarios reads the first file of each testdata/FORMAT/*.txtar as its folder says; the others can be included.
// "want" is the document, or the error.
func TestScenarios(t *testing.T) {
	paths, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, path := range paths {
		format := Format(filepath.Base(filepath.Dir(path)))
		t.Run(string(format)+"/"+strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, format, a)
			i := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == "want" })
			if *update {
				if i >= 0 {
					a.Files = slices.Delete(a.Files, i, i+1)
				}
				a.Files = append(a.Files, txtar.File{Name: "want", Data: []byte(got)})
				if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if i < 0 || string(a.Files[i].Data) != got {
				t.Errorf("got\n%s", got)
			}
		})
	}
}

func play(t *testing.T, format Format, a *txtar.Archive) string {
	t.Helper()
	open := func(pattern, _ string) ([]File, error) {
		var files []File
		for _, f := range a.Files {
			if ok, _ := filepath.Match(pattern, f.Name); ok {
				files = append(files, File{Name: f.Name, Data: f.Data})
			}
		}
		return files, nil
	}
	first := File{Name: a.Files[0].Name, Data: a.Files[0].Data}
	if got := Detect(first.Data); got != format {
		t.Errorf("taken for %q", got)
	}
	r, err := Read(format, first, open)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	accepted(t, r)
	if r.VRRP == nil {
		return r.Document()
	}
	return fmt.Sprintf("%s\n# keepalived.conf: priority %d, quorum %t\n%s", r.Document(), r.VRRP.Priority, r.VRRP.Quorum, r.VRRP.Conf)
}

// accepted fails unless a document is a services file without a mistake, with the services of the result.
func accepted(t *testing.T, r Result) {
	t.Helper()
	table, _, problems := file.Decode("services.toml", []byte(r.Document()))
	problems = append(problems, sources.Validate(table)...)
	if len(problems) > 0 || table.Services.Len() != len(r.Services) {
		t.Errorf("%d of %d services, %v\n%s", table.Services.Len(), len(r.Services), problems, r.Document())
	}
}

// For any text, the parser of each format ends, and what it returns is a services file without a mistake.

func FuzzIPVSAdm(f *testing.F)    { fuzz(f, IPVSAdm) }
func FuzzKeepalived(f *testing.F) { fuzz(f, Keepalived) }
func FuzzLDirectord(f *testing.F) { fuzz(f, LDirectord) }
func FuzzHAProxy(f *testing.F)    { fuzz(f, HAProxy) }
func FuzzKubernetes(f *testing.F) { fuzz(f, Kubernetes) }

func fuzz(f *testing.F, format Format) {
	paths, err := filepath.Glob(filepath.Join("testdata", string(format), "*.txtar"))
	if err != nil || len(paths) < 40 {
		f.Fatalf("%d files of %s: %v", len(paths), format, err)
	}
	for _, path := range paths {
		a, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(a.Files[0].Data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		Detect(data)
		self := func(string, string) ([]File, error) { return []File{{Name: "self", Data: data}}, nil }
		if r, err := Read(format, File{Name: "f", Data: data}, self); err == nil {
			accepted(t, r)
		}
	})
}

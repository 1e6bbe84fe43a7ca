package file

import (
	"bytes"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/svcproxy/svcproxy/sources"
)

// FuzzDecode: for any bytes, the decoder ends and returns the same twice. Every problem is one line of text, with a
// line number that the file has.
func FuzzDecode(f *testing.F) {
	for _, data := range scenarioFiles(f) {
		f.Add(data)
	}
	f.Add([]byte("\xef\xbb\xbfa = 1\n"))
	f.Add([]byte("a = \"\"\"\n\"\"\"\"\"\nb = '''x''''\n\"c\\u0041\" = {x.y = 1,\n# c\n}\n[[d]]\n[d.e]\n[[d]]\n[d.e]\n"))
	f.Add([]byte("a.b = 1\na.c = 2\n[a]\nd = 3\n[x.y]\n[x]\ny = 1\n"))

	f.Fuzz(func(t *testing.T, data []byte) {
		table, warnings, problems := Decode("f.toml", data)
		again, warnings2, problems2 := Decode("f.toml", data)
		if !reflect.DeepEqual(table, again) || !reflect.DeepEqual(warnings, warnings2) || !reflect.DeepEqual(problems, problems2) {
			t.Fatalf("two answers: %v %v\n%v %v", table, problems, again, problems2)
		}
		lines := 1 + bytes.Count(data, []byte("\n"))
		for _, p := range append(warnings, problems...) {
			if p.Origin.Line < 1 || p.Origin.Line > lines || strings.Contains(p.Message, "\n") {
				t.Errorf("of %d lines: %q", lines, p.Error())
			}
		}
		sources.Validate(table)
	})
}

// scenarioFiles are the services files of all scenarios.
func scenarioFiles(t testing.TB) (files [][]byte) {
	scenarios, err := filepath.Glob("testdata/scenario/*.txtar")
	if err != nil || len(scenarios) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, path := range scenarios {
		a, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range a.Files {
			if strings.HasSuffix(file.Name, ".toml") {
				files = append(files, bytes.ReplaceAll(file.Data, []byte("^M"), []byte("\r")))
			}
		}
	}
	return files
}

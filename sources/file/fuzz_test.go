package file

import (
	"bytes"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/svcproxy/svcproxy/sources"
)

// FuzzDecode holds what must be so for any bytes at all: the decoder ends, gives the same answer twice,
// every problem has a line that the file has, and where the library reads a document, the scan has found
// the place of every key and element in it, and of no others.
func FuzzDecode(f *testing.F) {
	scenarios, err := filepath.Glob("testdata/scenario/*.txtar")
	if err != nil || len(scenarios) == 0 {
		f.Fatal("no scenarios", err)
	}
	for _, path := range scenarios {
		a, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			if strings.HasSuffix(file.Name, ".toml") {
				f.Add(bytes.ReplaceAll(file.Data, []byte("^M"), []byte("\r")))
			}
		}
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
		sources.Validate(table, sources.HostFacts{})

		root, dups, deep := locate(string(data))
		var tree map[string]any
		if deep == 0 {
			if _, err := toml.Decode(rename(string(data), dups), &tree); err == nil {
				same(t, "", tree, root, lines)
			}
		}
	})
}

// same checks that places has the shape of v, with lines that the document has.
func same(t *testing.T, path string, v any, at *place, lines int) {
	if at == nil || at.line < 1 || at.line > lines {
		t.Errorf("no place for %q: %+v", path, at)
		return
	}
	switch v := v.(type) {
	case map[string]any:
		if len(v) != len(at.keys) {
			t.Errorf("%q has %d keys, %d were found", path, len(v), len(at.keys))
		}
		for k, c := range v {
			same(t, path+"."+k, c, at.keys[k], lines)
		}
	case []any:
		for i, c := range v {
			same(t, path+"[]", c, at.elem(i), lines)
		}
	case []map[string]any:
		for i, c := range v {
			same(t, path+"[]", c, at.elem(i), lines)
		}
	}
}

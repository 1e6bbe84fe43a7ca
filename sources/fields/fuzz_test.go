package fields

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// FuzzParse: for any bytes, the parse ends and returns the same twice. Every mistake has a line that the document has.
// If the text is TOML without duplicate keys, the scan has found the places of all keys and elements and no others.
func FuzzParse(f *testing.F) {
	samples, err := filepath.Glob("testdata/*.toml")
	if err != nil || len(samples) == 0 {
		f.Fatal("no samples", err)
	}
	for _, path := range samples {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n")))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tree, places, mistakes, ok := Parse(data)
		tree2, _, mistakes2, _ := Parse(data)
		if !reflect.DeepEqual(mistakes, mistakes2) || ok && len(tree) != len(tree2) {
			t.Fatalf("two answers: %v\n%v", mistakes, mistakes2)
		}
		lines := 1 + bytes.Count(data, []byte("\n"))
		for _, m := range mistakes {
			if m.Line < 1 || m.Line > lines || strings.Contains(m.Error(), "\n") {
				t.Errorf("of %d lines: %+v", lines, m)
			}
		}
		if ok && len(mistakes) == 0 && !emptyKey(tree) {
			same(t, "", tree, places, lines)
		} else if !ok && len(mistakes) == 0 {
			t.Error("not TOML, and no mistake in it")
		}
	})
}

// emptyKey reports whether a document has the key "". BurntSushi/toml 1.6.0 then loses elements of mixed arrays: of
// "" = [ [ 2 ], { g = 4 } ] one is left. No file of svcproxy has such arrays.
func emptyKey(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for k, c := range v {
			if k == "" || emptyKey(c) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, emptyKey)
	case []map[string]any:
		return slices.ContainsFunc(v, func(m map[string]any) bool { return emptyKey(m) })
	}
	return false
}

// same checks that at has the shape of v, with lines that the document has.
func same(t *testing.T, path string, v any, at *Place, lines int) {
	if at == nil || at.Line < 1 || at.Line > lines {
		t.Errorf("no place for %q: %+v", path, at)
		return
	}
	switch v := v.(type) {
	case map[string]any:
		if len(v) != len(at.keys) {
			t.Errorf("%q has %d keys, %d were found", path, len(v), len(at.keys))
		}
		for k, c := range v {
			same(t, path+"."+k, c, at.Key(k), lines)
		}
	case []any:
		for i, c := range v {
			same(t, path+"[]", c, at.Elem(i), lines)
		}
	case []map[string]any:
		for i, c := range v {
			same(t, path+"[]", c, at.Elem(i), lines)
		}
	}
}

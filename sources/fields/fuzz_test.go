package fields

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// FuzzParse: for any bytes, the parse ends and returns the same twice. Every mistake has a line that the document has.
// If the library accepts the text, the scan has found the places of all keys and elements and no others, and the text
// as a part decodes to the same.
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
			if m.Line < 1 || m.Line > lines || bytes.Contains([]byte(m.Message), []byte("\n")) {
				t.Errorf("of %d lines: %+v", lines, m)
			}
		}
		if ok && !emptyKey(tree) {
			same(t, "", tree, places, lines)
		} else if !ok && len(mistakes) == 0 {
			t.Error("not TOML, and no mistake in it")
		}
		if _, isText := checkText(string(data)); !isText {
			return
		}
		// BurntSushi/toml 1.6.0 takes """\\"""""", which has one quote more than TOML allows. The scan does not.
		whole := &scan{text: string(data), line: 1}
		faultless := whole.document(&Place{Line: 1}) && ok && len(mistakes) == 0 && !whole.through
		r := NewReader("")
		for range 2 { // the second time its skeleton is known, and there is room
			_, partOK := r.parse(string(data), 1, "")
			if partOK != faultless {
				t.Fatalf("as a part it is read: %v; its skeleton is %q", partOK, r.scan.skeleton)
			}
			if !partOK || emptyKey(tree) {
				continue
			}
			if got, want := fmt.Sprintf("%#v", said(Node{At: &r.root})), fmt.Sprintf("%#v", said(Node{V: tree})); got != want {
				t.Fatalf("as a part %s\nnot %s", got, want)
			}
		}
	})
}

// said is a part's value as the library decodes it, but for arrays of [[tables]].
func said(n Node) any {
	if n.IsTable() {
		all := map[string]any{}
		for _, key := range n.Keys() {
			value, _ := n.Under(key)
			all[key] = said(value)
		}
		return all
	}
	if length, ok := n.Len(); ok {
		all := make([]any, length)
		for i := range all {
			all[i] = said(n.Elem(i))
		}
		return all
	}
	if text, ok := n.Text(); ok {
		return text
	}
	if i, ok := n.Integer(); ok {
		return i
	}
	return n.V
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
		found := 0
		if at.below != nil {
			found = len(at.below.keys)
		}
		if len(v) != found {
			t.Errorf("%q has %d keys, %d were found", path, len(v), found)
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

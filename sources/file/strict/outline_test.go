package strict

import (
	"reflect"
	"testing"
)

// TestOutline: what the library is given of a part, and what its strings then say.
func TestOutline(t *testing.T) {
	r := NewReader("s")
	for text, want := range map[string]struct {
		outline string
		says    []string
	}{
		"k = [\n  \"one\", # first\n  'two',\n]\n":       {"k = [\n  \"\", #\n  '',\n]\n", []string{"one", "two"}},
		"k = [ \"\", '', \"\"\"\nx\"\"\", '''y''' ]\n":   {"k = [ \"\", '', \"\"\"\nx\"\"\", '''y''' ]\n", []string{"", "", "x", "y"}},
		"k = [ \"a\\tb\", '#', \"é\", '\"' ] # \\\n":     {"k = [ \"a\\tb\", '', \"\", '' ] # \\\n", []string{"a\tb", "#", "é", "\""}},
		"k = [ \"a\\\"\", \"b\" ] # \"c\n# '''\nx = 'd'": {"k = [ \"a\\\"\", \"\" ] #\n#\nx = ''", []string{"a\"", "b"}},
	} {
		for range 2 {
			tree, at, _, ok := r.parse(text, 1)
			var says []string
			for i, v := range tree["k"].([]any) {
				says = append(says, said(v, at.Key("k").Elem(i)).(string))
			}
			if !ok || string(r.scan.outline) != want.outline || !reflect.DeepEqual(says, want.says) {
				t.Errorf("%q: %q, says %q", text, r.scan.outline, says)
			}
		}
	}
	for _, text := range []string{"k = \"\x01\"\n", "k = '\x7f'\n", "k = 1 # \x01\n", "k = \"a\nb\"\n", "k = \"a\n", "k = 'a'b'\n", "k = 'a'''=b'''\n"} {
		if _, _, _, ok := r.parse(text, 1); ok {
			t.Errorf("%q was read", text)
		}
	}
	one, _, _, _ := r.parse("k = 'a'\n", 1)
	if two, _, _, _ := r.parse("k = 'b'\n", 1); reflect.ValueOf(one).Pointer() != reflect.ValueOf(two).Pointer() {
		t.Error("one outline was read twice")
	}
}

package fields

import (
	"reflect"
	"testing"
)

// TestSkeleton: the skeletons of parts, and the content of their strings and numbers.
func TestSkeleton(t *testing.T) {
	r := NewReader("s")
	for text, want := range map[string]struct {
		skeleton string
		says     []any
	}{
		"k = [\n  \"one\", # first\n  'two',\n]\n":       {"k = [\n  \"\", #\n  '',\n]\n", []any{"one", "two"}},
		"k = [ \"\", '', \"\"\"\nx\"\"\", '''y''' ]\n":   {"k = [ \"\", '', \"\"\"\nx\"\"\", '''y''' ]\n", []any{"", "", "x", "y"}},
		"k = [ \"a\\tb\", '#', \"é\", '\"' ] # \\\n":     {"k = [ \"a\\tb\", '', \"\", '' ] # \\\n", []any{"a\tb", "#", "é", "\""}},
		"k = [ \"a\\\"\", \"b\" ] # \"c\n# '''\nx = 'd'": {"k = [ \"a\\\"\", \"\" ] #\n#\nx = ''", []any{"a\"", "b"}},
		"k = [ 80,443 # 7\n, 0, 999999999\t, 1000000000, +1, -1, 1_0, 0x10, 1.5, 1e3, true ] # 1": {
			"k = [ 0,0 #\n, 0, 0\t, 1000000000, +1, -1, 1_0, 0x10, 1.5, 1e3, true ] #",
			[]any{int64(80), int64(443), int64(0), int64(999999999), int64(1000000000), int64(1), int64(-1), int64(10), int64(16), 1.5, 1e3, true},
		},
	} {
		for range 2 {
			tree, at, _, ok := r.parse(text, 1)
			var says []any
			for i, v := range tree["k"].([]any) {
				says = append(says, said(v, at.Key("k").Elem(i)))
			}
			if !ok || string(r.scan.skeleton) != want.skeleton || !reflect.DeepEqual(says, want.says) {
				t.Errorf("%q: %q, says %#v", text, r.scan.skeleton, says)
			}
		}
	}
	for _, text := range []string{"k = \"\x01\"\n", "k = '\x7f'\n", "k = 1 # \x01\n", "k = \"a\nb\"\n", "k = \"a\n", "k = 'a'b'\n", "k = 'a'''=b'''\n", "k = 08\n", "k = 8 0\n", "k = 8k\n"} {
		if _, _, _, ok := r.parse(text, 1); ok {
			t.Errorf("%q was read", text)
		}
	}
	one, _, _, _ := r.parse("k = 'a'\n", 1)
	if two, _, _, _ := r.parse("k = 'b'\n", 1); reflect.ValueOf(one).Pointer() != reflect.ValueOf(two).Pointer() {
		t.Error("one skeleton was read twice")
	}
}

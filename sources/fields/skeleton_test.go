package fields

import (
	"reflect"
	"strings"
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
			tree, at, _, ok := r.parse(text, 1, "")
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
		if _, _, _, ok := r.parse(text, 1, ""); ok {
			t.Errorf("%q was read", text)
		}
	}
	one, _, _, _ := r.parse("k = 'a'\n", 1, "")
	if two, _, _, _ := r.parse("k = 'b'\n", 1, ""); reflect.ValueOf(one).Pointer() != reflect.ValueOf(two).Pointer() {
		t.Error("one skeleton was read twice")
	}
}

// TestPieces: parts are joined from pieces that they share, and are what the library makes of the whole.
func TestPieces(t *testing.T) {
	r := NewReader("s")
	for _, body := range []string{
		"a = 1\nb.c = 2\nb.d = [ 3 ]\n[s.NAME.e]\nf = 4\ng.h = 5\n[s.NAME.i] # six\n",
		"[[s.NAME.a]]\nb = 1\n[[s.NAME.a]]\nb = [ { c = 2 }, 3 ]\nd.e = 4\n[s.NAME.f]\nb = 5\n[[s.NAME.a]]\n",
	} {
		for range 2 {
			for _, name := range []string{"one", "two"} {
				text := strings.ReplaceAll("[s.NAME]\n"+body, "NAME", name)
				whole, _, _, _ := Parse([]byte(text))
				parts, cut := Cut(text, "s")
				if !cut || len(parts) != 1 {
					t.Fatalf("%q: %v", text, parts)
				}
				_, table, at, _, ok := r.Parse(parts[0])
				if _, joined := r.skeletons.byPieces(r.scan.skeleton, r.scan.cuts); !ok || !joined {
					t.Fatalf("%q: read %v, joined %v", text, ok, joined)
				}
				if got, want := said(table, at), whole["s"].(map[string]any)[name]; !reflect.DeepEqual(got, want) {
					t.Errorf("%q: %#v, not %#v", text, got, want)
				}
			}
		}
	}
	if n := len(r.skeletons.parts); n != 2 {
		t.Errorf("%d skeletons of 2 kinds of parts", n)
	}
	for _, text := range []string{
		"a = 1\na.b = 2\n", "a.b = 1\na = 2\n", "a = {}\na.b = 1\n", "a.b = 1\na.b = 2\n", "a.b = 1\n[a]\n", "[a]\n[a]\n",
		"a = []\n[[a]]\n", "[a]\n[[a]]\n", "[[a]]\n[a]\n", "[a] b = 1\n", "a = 1 [b]\n", "[a]\nb = {}\nb.c = 1\n",
	} {
		_, _, mistakes, whole := Parse([]byte(text)) // the library takes some that TOML forbids
		if _, _, _, ok := r.parse(text, 1, ""); ok != (whole && mistakes == nil) {
			t.Errorf("%q was read: %v", text, ok)
		}
		if _, joined := r.skeletons.byPieces(r.scan.skeleton, r.scan.cuts); joined {
			t.Errorf("%q was joined", text)
		}
	}
}

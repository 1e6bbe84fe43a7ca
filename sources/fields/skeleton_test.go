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
		"k = [ \"a\\\"\", \"b\" ] # \"c\n# '''\nx = 'd'": {"x = ''", []any{"a\"", "b"}},
		"k = [ 80,443 # 7\n, 0, 999999999\t, 1000000000, +1, -1, 1_0, 0x10, 1.5, 1e3, true ] # 1": {
			"k = [ 0,0 #\n, 0, 0\t, 1000000000, +1, -1, 1_0, 0x10, 1.5, 1e3, true ] #",
			[]any{int64(80), int64(443), int64(0), int64(999999999), int64(1000000000), int64(1), int64(-1), int64(10), int64(16), 1.5, 1e3, true},
		},
	} {
		for range 2 {
			_, ok := r.parse(text, 1, "")
			k, _ := Node{At: &r.root}.Under("k")
			if says := said(k); !ok || string(r.scan.skeleton) != want.skeleton || !reflect.DeepEqual(says, want.says) {
				t.Errorf("%q: %q, says %#v", text, r.scan.skeleton, said(k))
			}
		}
	}
	for _, text := range []string{"k = \"\x01\"\n", "k = '\x7f'\n", "k = 1 # \x01\n", "k = \"a\nb\"\n", "k = \"a\n", "k = 'a'b'\n", "k = 'a'''=b'''\n", "k = 08\n", "k = 8 0\n", "k = 8k\n"} {
		if _, ok := r.parse(text, 1, ""); ok {
			t.Errorf("%q was read", text)
		}
	}
	known := len(r.scan.library.pieces)
	for _, text := range []string{"j = 'a'\n", "j = 'b'\n"} {
		if _, ok := r.parse(text, 1, ""); !ok || len(r.scan.library.pieces) != known+1 {
			t.Errorf("%q: read %v, %d skeletons and then %d", text, ok, known, len(r.scan.library.pieces))
		}
	}
}

// TestPieces: parts have pieces that they share, and are what the library makes of the whole.
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
				table, _, ok := r.Parse(parts[0])
				if !ok || !r.scan.pieces {
					t.Fatalf("%q: read %v, in pieces %v", text, ok, r.scan.pieces)
				}
				if got, want := said(table), said(Node{V: whole["s"].(map[string]any)[name]}); !reflect.DeepEqual(got, want) {
					t.Errorf("%q: %#v, not %#v", text, got, want)
				}
			}
		}
	}
	if n := len(r.scan.library.pieces); n != 12 {
		t.Errorf("%d skeletons of 12 kinds of pieces", n)
	}
	for _, text := range []string{
		"a = 1\na.b = 2\n", "a.b = 1\na = 2\n", "a = {}\na.b = 1\n", "a.b = 1\na.b = 2\n", "a.b = 1\n[a]\n", "[a]\n[a]\n",
		"a = []\n[[a]]\n", "[a]\n[[a]]\n", "[[a]]\n[a]\n", "[a] b = 1\n", "a = 1 [b]\n", "[a]\nb = {}\nb.c = 1\n",
	} {
		_, _, mistakes, whole := Parse([]byte(text)) // the library takes some that TOML forbids
		if _, ok := r.parse(text, 1, ""); ok != (whole && mistakes == nil && !r.scan.through) {
			t.Errorf("%q was read: %v", text, ok)
		}
		if r.scan.pieces {
			t.Errorf("%q was read in pieces", text)
		}
	}
}

// TestStructures: of all short parts of these lines, what is read is what the library makes of it.
func TestStructures(t *testing.T) {
	lines := []string{
		"[a]", "[a.b]", "[b]", "[[a]]", "[[a.b]]", "[[b]]", "a = 1", "a = {}", "a = [ 1 ]", "a = [ { b = 1 } ]", "a = { b.a = 1 }", "a.b = 1", "a.b.a = 1", "a.b.b = 1", "b = 1",
		"b = [ { a = 1, a.b = 2 } ]", "b.a = 1", "b.a = {}", "b.b = [ { a.a = 1, a.b = 2 } ]",
	}
	read, r := 0, NewReader("")
	var with func(text string, more int)
	with = func(text string, more int) {
		tree, _, mistakes, ok := Parse([]byte(text))
		if _, partOK := r.parse(text, 1, ""); !partOK && ok && mistakes == nil && !r.scan.through {
			t.Errorf("%q was not read", text)
		} else if partOK {
			read++
			if got, want := said(Node{At: &r.root}), said(Node{V: tree}); !ok || mistakes != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%q: %v, not %v", text, got, want)
			}
		}
		for i := 0; i < len(lines) && more > 0; i++ {
			with(text+lines[i]+"\n", more-1)
		}
	}
	with("", 3)
	if read < 1000 {
		t.Errorf("%d were read", read)
	}
}

package fields

import (
	"slices"
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	hide := func(path []string, value string) bool { return slices.Contains(path, "secret") || value == "7" }
	for in, want := range map[string]string{
		"# c\na = 1 # c\n":                          "\na = 1 \n",
		"[a.secret]\nx = [1, # c\n 2]\ny = 'z'\n":   "[a.secret]\nx = -\ny = -\n",
		"a = { b = 7, \"secret\".c = { d = 1 } }\n": "a = { b = -, \"secret\".c = - }\n",
		"[[a]]\nl = [5, 7, '#']\n":                  "[[a]]\nl = [5, -, '#']\n",
		"a = 1\nb = \"\nsecret = 2\n":               "a = 1\n", // and cannot be read
	} {
		if out, ok := Redact(in, "-", hide); out != want || ok == strings.Contains(in, "\"\n") {
			t.Errorf("%q: %q, %v, want %q", in, out, ok, want)
		}
	}
}

// FuzzRedact: what Parse reads, Redact reads to its end, and no value that hide reports is left.
func FuzzRedact(f *testing.F) {
	f.Add("[a]\nx = { y = [1, 'two'], z = \"\"\"3\"\"\" } # c\n")
	f.Fuzz(func(t *testing.T, text string) {
		if _, _, mistakes, read := Parse([]byte(text)); !read || len(mistakes) > 0 {
			return
		}
		out, ok := Redact(text, "0", func(path []string, _ string) bool { return len(path) > 0 })
		if !ok {
			t.Fatalf("%q is not read", text)
		}
		tree, _, _, ok := Parse([]byte(out))
		if !ok {
			t.Fatalf("%q is made of %q", out, text)
		}
		for key, v := range tree {
			if _, table := v.(map[string]any); !table && v != int64(0) {
				if _, tables := v.([]map[string]any); !tables {
					t.Fatalf("%q has %q: %v", out, key, v)
				}
			}
		}
	})
}

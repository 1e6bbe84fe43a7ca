package fields

import (
	"fmt"
	"strings"
	"testing"
)

// TestCut: Cut separates plain tables, with their lines, and declines everything else.
func TestCut(t *testing.T) {
	const a, b = "[s.a]\nx = 1\n", "[s.b]\ny = [\n  2,\n]\n"
	for text, want := range map[string]string{
		a:                                 "1 s.a",
		a + b:                             "1 s.a, 3 s.b",
		"# one\n\n" + a + "# of b\n" + b:  "3 s.a, 6 s.b",
		"  [s.\"n/a\"] # c\n\t[s.'l']\n":  "1 s.n/a, 2 s.l",
		a + "[[s.a.t]]\n[s.a.t.u]\n" + b:  "1 s.a, 5 s.b",
		"[s.\"x]y\"]\n":                   "1 s.x]y",
		"[s.a]":                           "1 s.a",
		a + "z = \"\"\"\n[s.a.q]\n\"\"\"": "1 s.a",

		"":                                  "declined",
		"# nothing\n":                       "declined",
		"\x01\n" + a:                        "declined",
		"# \x01\n" + a:                      "declined",
		"z = 1\n" + a:                       "declined",
		"s.c = {}\n" + a:                    "declined",
		"\ufeff" + a:                        "declined",
		"[s]\n" + a:                         "declined",
		a + "[s]\n":                         "declined",
		a + "[s . b]\n":                     "declined",
		a + "[[s.b]]\n":                     "declined",
		"[[s.a]]\n":                         "declined",
		a + "[s.b.c]\n":                     "declined",
		a + "[s.\"a\\u0062\"]\n":            "declined",
		a + "[other.a]\n":                   "declined",
		a + "[sa.b]\n":                      "declined",
		a + "[s.]\n":                        "declined",
		strings.ReplaceAll(a, "\n", "\r\n"): "declined",
		a + "z = [\n[1],\n]\n":              "declined",
		a + "z = \"\"\"\n" + b + "\"\"\"\n": "1 refused, 4 refused",
		a + "z = [\n" + b + "]\n":           "1 refused, 4 refused",
		a + "[s.a]]\n":                      "1 s.a, 3 refused",
		a + b + a:                           "1 s.a, 3 s.b, 7 s.a",
		a + "x = 2\n":                       "1 refused",
		a + "[s.a.x]\n":                     "1 refused",
		"[s.a]\nz = 1 [s.b]\n":              "1 refused",
		"[s.\"\\x\"]\n":                     "declined",
		"[s.\"a\x7f\"]\n":                   "1 refused",
	} {
		var got []string
		r := NewReader("s")
		parts, ok := Cut(text, "s")
		if !ok {
			got = []string{"declined"}
		}
		whole := ""
		for _, p := range parts {
			whole += p.Text
			if n, values, ok := r.Parse(p); ok {
				got = append(got, fmt.Sprintf("%d s.%s", p.Line, n.Key))
				if !n.IsTable() || n.Line() != 1 || values < 1 {
					t.Errorf("%q: %+v, %d values", p.Text, n, values)
				}
			} else {
				got = append(got, fmt.Sprintf("%d refused", p.Line))
			}
		}
		if got := strings.Join(got, ", "); got != want || !strings.HasSuffix(text, whole) {
			t.Errorf("%q: %s, not %s", text, got, want)
		}
	}
}

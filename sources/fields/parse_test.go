package fields

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// sample reads a sample and returns its mistakes, one per line.
func sample(t *testing.T, name string) (tree map[string]any, places *Place, mistakes string, ok bool) {
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	tree, places, found, ok := Parse(data)
	var b strings.Builder
	for _, m := range found {
		fmt.Fprintf(&b, "%d %s %s\n", m.Line, m.Top, m)
	}
	return tree, places, b.String(), ok
}

func TestForms(t *testing.T) {
	_, places, mistakes, ok := sample(t, "forms.toml")
	if !ok || mistakes != "" {
		t.Fatal(mistakes)
	}
	for path, want := range map[string]int{
		"dotted.a.c.e.f": 4,
		"quoted A":       5,
		`literal "`:      6,
		"headers.x.y":    11,
		"later":          23,
		"later.parent":   22,
	} {
		p := places
		for _, key := range strings.Split(path, ".") {
			p = p.Key(key)
		}
		if p == nil || p.Line != want {
			t.Errorf("%s is at %+v, not line %d", path, p, want)
		}
	}
	if p := places.Key("tables").Elem(0).Key("a").Elem(1); p == nil || p.Line != 17 {
		t.Errorf("%+v", p)
	}
	if places.Key("no").Key("such").Elem(3) != nil {
		t.Error("a place for what is not there")
	}
}

// TestDuplicates: all duplicates are found, and the tree has what is not below them.
func TestDuplicates(t *testing.T) {
	tree, _, mistakes, ok := sample(t, "duplicates.toml")
	want := `2 a duplicate key a, first given at line 1
5 t duplicate key b.c, first given at line 4
6 t duplicate key e, first given at line 6
6 t duplicate key g, first given at line 6
7 t duplicate key t, first given at line 3
11 u duplicate key h, first given at line 10
`
	if !ok || mistakes != want {
		t.Errorf("got\n%swant\n%s", mistakes, want)
	}
	const wantTree = "map[a:1 t:map[b:map[c:1] d:map[e:1 f:[map[g:1]]]] u:[map[h:1] map[h:1]]]"
	if got := fmt.Sprint(tree); got != wantTree {
		t.Errorf("got  %s\nwant %s", got, wantTree)
	}
}

func TestSyntax(t *testing.T) {
	_, _, mistakes, ok := sample(t, "syntax.toml")
	want := `2 a duplicate key a, first given at line 1
4  not TOML: expected a comma (',') or array terminator (']'), but got 'c'
`
	if ok || mistakes != want {
		t.Errorf("got\n%swant\n%s", mistakes, want)
	}
}

func TestNear(t *testing.T) {
	known := []string{"ipMode", "port", "ports", "scheduler", "targetPort", "weight"}
	for word, want := range map[string]string{
		"Scheduler": "scheduler", "sheduler": "scheduler", "wieght": "weight", "target-port": "targetPort",
		"TARGETPORT": "targetPort", "prot": "port", "x": "", "colour": "", "": "",
	} {
		if got := Near(word, known); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}

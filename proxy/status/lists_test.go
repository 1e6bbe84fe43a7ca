package status_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/condition"
	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// A closed list has every constant of its type. A constant that is missing has
// no series in the metrics, no colour on the page and no line in JSON.md.
func TestListsHaveEveryConstant(t *testing.T) {
	for _, c := range []struct {
		dir, typ string
		list     []string
	}{
		{"..", "Cause", texts(proxy.Causes())},
		{".", "State", texts(status.States())},
		{".", "EndpointState", texts(status.EndpointStates())},
		{".", "Kind", texts(status.Kinds())},
		{"../events", "Kind", texts(events.Kinds())},
	} {
		want := constants(t, c.dir, c.typ)
		got := slices.Sorted(slices.Values(c.list))
		if slices.Sort(want); !slices.Equal(got, want) || len(want) == 0 {
			t.Errorf("%s of %s: listed %q, declared %q", c.typ, c.dir, got, want)
		}
	}
}

// The lists of health have what package health decides.
func TestListsOfHealth(t *testing.T) {
	for _, c := range []struct {
		what      string
		got, want []string
	}{
		{"states", texts(status.HealthStates()), append(words(health.Phases()), string(status.Unchecked))},
		{"causes", texts(status.HealthCauses()), words(health.Causes())},
		{"modes", texts(status.HealthModes()), words(health.Modes())},
	} {
		slices.Sort(c.got)
		if slices.Sort(c.want); !slices.Equal(c.got, c.want) {
			t.Errorf("%s: listed %q, want %q", c.what, c.got, c.want)
		}
	}
}

func words[T fmt.Stringer](list []T) []string {
	var all []string
	for _, v := range list {
		all = append(all, v.String())
	}
	return all
}

// JSON.md says what every value of a closed list means, in the words of the list.
func TestListsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("JSON.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := strings.ReplaceAll(string(text), "\n  ", " ") // an item on one line
	row := func(value, meaning string) {
		if meaning == "" {
			t.Errorf("%q has no meaning", value)
		}
		if line := fmt.Sprintf("\n- `%s`: %s\n", value, meaning); !strings.Contains(doc, line) {
			t.Errorf("JSON.md lacks the line\n%s", line)
		}
	}
	for _, c := range proxy.Causes() {
		row(string(c), c.Meaning())
	}
	for _, k := range condition.Kinds() {
		row(string(k), k.Meaning())
	}
	for _, s := range status.States() {
		code := ""
		if s.Verdict() != status.Well {
			code = fmt.Sprintf(" (%d)", s.Verdict())
		}
		row(string(s), s.Meaning()+code)
	}
	for _, s := range status.EndpointStates() {
		row(string(s), s.Meaning())
	}
	for _, s := range status.HealthStates() {
		row(string(s), s.Meaning())
	}
	for _, c := range status.HealthCauses() {
		row(string(c), c.Meaning())
	}
	for _, m := range status.HealthModes() {
		row(string(m), m.Meaning())
	}
	for _, k := range events.Kinds() {
		row(string(k), k.Meaning())
	}
	flat := strings.ReplaceAll(doc, "\n", " ")
	for _, r := range frontend.Reasons() {
		if r.String() == "" || !strings.Contains(flat, "`"+r.String()+"`") {
			t.Errorf("JSON.md lacks the reason %q", r)
		}
	}
	for _, k := range status.Kinds() {
		if !strings.Contains(doc, "`"+string(k)+"`") {
			t.Errorf("JSON.md lacks the kind %s", k)
		}
	}
}

func texts[T ~string](list []T) []string {
	var all []string
	for _, v := range list {
		all = append(all, string(v))
	}
	return all
}

// constants gives the values of the string constants of a type.
func constants(t *testing.T, dir, typ string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			if name, ok := spec.Type.(*ast.Ident); !ok || name.Name != typ {
				return true
			}
			if text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value); err == nil {
				values = append(values, text)
			}
			return true
		})
	}
	return values
}

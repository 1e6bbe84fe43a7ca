package kerneltest

import (
	"context"
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

//go:embed testdata/contract/*.txtar
var contracts embed.FS

// Kernel is what the contract demands of kernel/fake, kernel/host, and kernel/relay with a fake for
// the other kinds.
type Kernel interface {
	Read(context.Context) (kernel.Observed, error)
	Verify(ctx context.Context, known *kernel.Observed, shard plan.Shard) (bool, error)
	Apply(context.Context, kernel.Plan) error
}

// Contract runs every scenario of testdata/contract on a kernel that open makes, with
// no owned objects in it. A scenario lists ops, one a line, and each is a plan of its
// own; an op behind "!" must be refused. A chain's rules follow it, indented. In the
// end the reading must equal the scenario's state, without sysctls, and without
// timeouts if the scenario sets none. Scenarios named by without are left out.
func Contract(t *testing.T, names kernel.Names, open func(testing.TB) Kernel, without ...string) {
	files, err := contracts.ReadDir("testdata/contract")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".txtar")
		if slices.Contains(without, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			text, err := contracts.ReadFile(path.Join("testdata/contract", f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			scenario(t, open(t), names, txtar.Parse(text))
		})
	}
}

func scenario(t *testing.T, k Kernel, names kernel.Names, a *txtar.Archive) {
	var ops, want string
	for _, f := range a.Files {
		switch f.Name {
		case "ops":
			ops = string(f.Data)
		case "state":
			want = string(f.Data)
		default:
			t.Fatalf("section %q: want ops and state", f.Name)
		}
	}
	for _, s := range steps(ops) {
		have := read(t, k)
		op, err := parseOp(s, have.State)
		if err != nil {
			t.Fatal(err)
		}
		err = k.Apply(t.Context(), kernel.Plan{Ops: []kernel.Op{op}})
		if refused := err != nil; refused != s.refused {
			t.Fatalf("%s: refused %v, want %v: %v\nstate:\n%s", s.text, refused, s.refused, err, have.State)
		}
		compare(t, k, &have, s.text)
	}
	got := read(t, k).State
	got.Sysctls = nil
	if !strings.Contains(want, "--set ") {
		got.Timeouts = kernel.Timeouts{}
	}
	if got.String() != want {
		t.Errorf("state:\n%s\nwant:\n%s", got, want)
	}
}

// compare checks that Verify agrees with a full reading.
func compare(t *testing.T, k Kernel, before *kernel.Observed, op string) {
	t.Helper()
	now := read(t, k)
	for _, shard := range []plan.Shard{plan.Everything, {}} {
		for _, known := range []*kernel.Observed{before, &now} {
			same, err := k.Verify(t.Context(), known, shard)
			if err != nil {
				t.Fatal(err)
			}
			// Verify may notice a difference outside the shard.
			if same && !shard.Same(known, &now) || !same && plan.Everything.Same(known, &now) {
				t.Errorf("%s: unchanged %v; shard %v\nbefore:\n%s\nnow:\n%s", op, same, shard, known, now)
			}
		}
	}
}

func read(t *testing.T, k Kernel) kernel.Observed {
	t.Helper()
	o, err := k.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// step is one op as text.
type step struct {
	text    string
	rules   []string // of a chain
	refused bool
}

func steps(text string) []step {
	var all []step
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '\t':
			last := &all[len(all)-1]
			last.rules = append(last.rules, line[1:])
		default:
			rest, refused := strings.CutPrefix(line, "! ")
			all = append(all, step{text: rest, refused: refused})
		}
	}
	return all
}

var verbs = map[string]kernel.Verb{"+": kernel.Add, "~": kernel.Change, "-": kernel.Remove}

func parseOp(s step, have kernel.State) (kernel.Op, error) {
	sign, text, _ := strings.Cut(s.text, " ")
	verb, ok := verbs[sign]
	if !ok {
		return kernel.Op{}, fmt.Errorf("%q: want +, ~ or - first", s.text)
	}
	object, err := parseObject(text, s.rules)
	if err != nil {
		return kernel.Op{}, fmt.Errorf("%q: %w", s.text, err)
	}
	op := kernel.Op{Verb: verb, Object: object}
	if verb != kernel.Add {
		op.Was = object
		if c, ok := object.(kernel.Chain); ok {
			op.Was = chain(have, c)
		}
	}
	return op, nil
}

// chain returns a chain as it is now, without rules if it does not exist.
func chain(have kernel.State, c kernel.Chain) kernel.Chain {
	for _, h := range have.Chains {
		if h.Family == c.Family && h.Table == c.Table && h.Name == c.Name {
			return h
		}
	}
	c.Rules = ""
	return c
}

func parseObject(text string, rules []string) (kernel.Object, error) {
	f := strings.Fields(text)
	switch f[0] {
	case "chain":
		if len(f) != 4 {
			return nil, fmt.Errorf("want: chain iptables|ip6tables TABLE NAME")
		}
		c := kernel.Chain{Family: kernel.IPv4, Table: f[2], Name: f[3], Rules: strings.Join(rules, "\n")}
		if f[1] == "ip6tables" {
			c.Family = kernel.IPv6
		}
		return c, nil
	case "swap":
		return kernel.Swap{From: f[1], To: f[2]}, nil
	}
	o, err := kernel.ParseObserved(text)
	if err != nil {
		return nil, err
	}
	for object := range o.Objects() {
		return object, nil
	}
	return nil, fmt.Errorf("no object")
}

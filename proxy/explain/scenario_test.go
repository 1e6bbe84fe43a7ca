package explain_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/explain"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode/iptables"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the want sections of the scenarios")

// TestScenarios runs testdata/*.txtar. Section scenario names a table of testdata/rules and a
// mode, whose state is the kernel's. Section change replaces lines of that state, "old => new",
// or adds lines. Sections routes, health and order have the other facts. A section "want QUESTION" has
// the answer to a question: PROTO VIP:PORT [from SOURCE] [in LINK], or a service.
func TestScenarios(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) { scenario(t, path) })
	}
}

func scenario(t *testing.T, path string) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(strings.TrimSpace(string(archive.Comment))) == 0 {
		t.Error("no comment that says what is tested")
	}
	var facts explain.Facts
	for i := range archive.Files {
		f := &archive.Files[i]
		switch text := string(f.Data); f.Name {
		case "scenario":
			facts = factsOf(t, strings.Fields(text))
		case "change":
			facts.Kernel = changed(t, facts.Kernel, text)
		case "routes":
			facts.Network = parseNetwork(t, text)
		case "health":
			facts.Health = parseHealth(t, text)
		case "elsewhere":
			vip, who, _ := strings.Cut(strings.TrimSpace(text), " ")
			facts.Elsewhere = map[netip.Addr]string{netip.MustParseAddr(vip): who}
		case "order":
			facts.Order = func(kernel.VirtualKey) (list []netip.AddrPort, err error) {
				for _, word := range strings.Fields(text) {
					list = append(list, netip.MustParseAddrPort(word))
				}
				return list, nil
			}
		case "no services":
			facts.Fronts = nil
		default:
			question, ok := strings.CutPrefix(f.Name, "want ")
			if !ok {
				t.Fatalf("unknown section %q", f.Name)
			}
			got := answer(t, facts, strings.Fields(question))
			if *rewrite {
				f.Data = []byte(got)
			} else if got != text {
				t.Errorf("%s:\n%swant:\n%s", f.Name, got, text)
			}
		}
	}
	if *rewrite && !t.Failed() {
		if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// factsOf returns the facts of a scenario of testdata/rules in a mode.
func factsOf(t *testing.T, words []string) explain.Facts {
	t.Helper()
	s := modetest.Scenario{Name: words[0]}
	s.Read(t)
	fronts := frontend.List(s.Table, s.Node, s.Config.Frontends)
	o := kernel.Observed{Node: s.Node, Names: kernel.DefaultNames}
	if words[1] == "iptables" {
		o.State = iptables.State(fronts, s.Config)
	} else {
		o.State = ipvs.State(fronts, s.Config)
	}
	o.State.Sort()
	return explain.Facts{Kernel: o, Fronts: fronts}
}

// changed replaces text of a reading, "old => new", or adds lines.
func changed(t *testing.T, o kernel.Observed, changes string) kernel.Observed {
	t.Helper()
	o.Policy = kernel.Policy{}
	text := o.String()
	for line := range strings.Lines(changes) {
		line = strings.TrimSpace(line)
		before, after, replaces := strings.Cut(line, " => ")
		if !replaces {
			text += line + "\n"
			continue
		}
		if !strings.Contains(text, before) {
			t.Fatalf("the state has no %q:\n%s", before, text)
		}
		text = strings.ReplaceAll(text, before, strings.TrimPrefix(after, "nothing"))
	}
	o, err := kernel.ParseObserved(text)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// network has routes by question, "10.2.1.10" or "10.96.0.20 in eth0", and kernel parameters.
type network struct {
	hops    map[string]kernel.Hop
	sysctls map[string]string
}

func (n network) Hop(q kernel.Path) (kernel.Hop, error) {
	key := q.Dst.String()
	if q.In != "" {
		key += " in " + q.In
	}
	if h, ok := n.hops[key]; ok {
		return h, nil
	}
	return kernel.Hop{}, fmt.Errorf("no route %q in the scenario", key)
}

func (n network) Sysctl(name string) string { return n.sysctls[name] }

// parseNetwork reads "DESTINATION [in LINK]: KIND [dev LINK] [via GATEWAY] [src SOURCE]
// [neighbor STATE]" and "sysctl NAME = VALUE".
func parseNetwork(t *testing.T, text string) network {
	t.Helper()
	n := network{map[string]kernel.Hop{}, map[string]string{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "sysctl "); ok {
			name, value, _ := strings.Cut(rest, " = ")
			n.sysctls[name] = value
			continue
		}
		to, rest, _ := strings.Cut(line, ": ")
		words := strings.Fields(rest)
		h := kernel.Hop{Kind: kernel.RouteKind(words[0])}
		for i := 1; i+1 < len(words); i += 2 {
			switch words[i] {
			case "dev":
				h.Link = words[i+1]
			case "via":
				h.Gateway = netip.MustParseAddr(words[i+1])
			case "src":
				h.Source = netip.MustParseAddr(words[i+1])
			case "neighbor":
				h.Neighbor = words[i+1]
			default:
				t.Fatalf("route %q: unknown word %q", line, words[i])
			}
		}
		n.hops[to] = h
	}
	return n
}

func parseHealth(t *testing.T, text string) map[explain.Endpoint]explain.Health {
	t.Helper()
	known := map[explain.Endpoint]explain.Health{}
	for line := range strings.Lines(text) {
		words := strings.SplitN(strings.TrimSpace(line), " ", 3)
		proto, err := kernel.ParseProto(words[0])
		if err != nil {
			t.Fatal(err)
		}
		h := explain.Health{Text: words[2], Up: strings.HasPrefix(words[2], "up "), Down: strings.HasPrefix(words[2], "down ")}
		if silent, ok := strings.CutPrefix(words[2], "silent: "); ok {
			h = explain.Health{Silent: silent}
		}
		known[explain.Endpoint{Proto: proto, Addr: netip.MustParseAddrPort(words[1])}] = h
	}
	return known
}

func answer(t *testing.T, f explain.Facts, words []string) string {
	t.Helper()
	if len(words) == 1 {
		all, err := explain.Service(f, words[0])
		if err != nil {
			return "error: " + err.Error() + "\n"
		}
		return all.String()
	}
	proto, err := kernel.ParseProto(words[0])
	if err != nil {
		t.Fatal(err)
	}
	from, in, mark := "", "", uint32(0)
	for i := 2; i+1 < len(words); i += 2 {
		switch words[i] {
		case "from":
			from = words[i+1]
		case "in":
			in = words[i+1]
		case "mark":
			if _, err := fmt.Sscan(words[i+1], &mark); err != nil {
				t.Fatal(err)
			}
		}
	}
	p, err := f.Packet(proto, netip.MustParseAddrPort(words[1]), from, in)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	p.Mark = mark
	a := explain.Explain(f, p)
	if a.Sentence == "" || a.Fate == "" {
		t.Errorf("%s: no sentence", words)
	}
	return a.String()
}

// TestJSONIsDocumented holds JSON.md to the fields and words of an answer.
func TestJSONIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("JSON.md")
	if err != nil {
		t.Fatal(err)
	}
	words := []string{}
	for _, f := range explain.Fates() {
		words = append(words, string(f))
	}
	for _, s := range explain.Stages() {
		words = append(words, string(s))
	}
	for _, v := range []any{explain.Answer{}, explain.Step{}, explain.Backend{}, explain.Services{}} {
		of := reflect.TypeOf(v)
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			if of.Field(i).IsExported() {
				words = append(words, name)
			}
		}
	}
	for _, word := range words {
		if !strings.Contains(string(doc), "`"+word+"`") {
			t.Errorf("%s is not in JSON.md", word)
		}
	}
	text, err := json.Marshal(explain.Explain(explain.Facts{}, mustPacket(t)))
	if err != nil || strings.Contains(string(text), "null") {
		t.Errorf("%s, %v: want no null", text, err)
	}
}

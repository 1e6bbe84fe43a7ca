package health

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

var update = flag.Bool("update", false, "write what came out into the scenario files")

// TestScenarios plays testdata/*.txtar: "steps" are carried out on the table in "table", and what they print is "want".
func TestScenarios(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			p := player{t: t, files: map[string]string{}, start: time.Unix(1_700_000_000, 0).UTC()}
			for _, f := range a.Files {
				p.files[f.Name] = string(f.Data)
			}
			p.play()
			got, i := p.out.String(), slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == "want" })
			switch {
			case *update && i >= 0:
				a.Files[i].Data = []byte(got)
			case *update:
				a.Files = append(a.Files, txtar.File{Name: "want", Data: []byte(got)})
			case i < 0 || got != string(a.Files[i].Data):
				t.Fatalf("got:\n%s\nwant:\n%s", got, p.files["want"])
			}
			if *update {
				if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// player carries out the steps of a scenario as the loop and the checker will.
type player struct {
	t     *testing.T
	files map[string]string
	out   strings.Builder
	start time.Time

	now     time.Time
	name    string // of the file with the table
	table   sources.Table
	targets []Target
	board   Board
	cache   Cache
	known   Known // verdicts and overrides
	changed []Key
	last    Overlaid
}

func (p *player) play() {
	p.now = p.start
	p.use("table", nil)
	for line := range strings.Lines(p.files["steps"]) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if at, rest, ok := strings.Cut(line, " "); ok {
			if d, err := time.ParseDuration(at); err == nil {
				p.to(p.start.Add(d))
				line = rest
			}
		}
		fmt.Fprintf(&p.out, "> %s\n", line)
		p.step(strings.Fields(line))
		p.overlay()
	}
}

// to lets time pass, with every change that the overlay announced for itself.
func (p *player) to(now time.Time) {
	for !p.last.Wake.IsZero() && p.last.Wake.Before(now) {
		p.now = p.last.Wake
		p.overlay()
	}
	p.now = now
	p.note(p.board.Tick(now))
	p.overlay()
}

func (p *player) use(name string, initial map[Key]Verdict) {
	p.name, p.table = name, readTable(p.t, p.files[name])
	p.targets = Targets(p.table)
	p.changed = append(p.changed, p.known.Verdicts.Apply(p.board.SetTargets(p.targets, initial, p.now))...)
	p.overlay()
}

// overlay asks the cache, and holds it to what Overlay says.
func (p *player) overlay() {
	was := p.last
	p.last = p.cache.Overlay(p.table, p.known, p.changed, p.now)
	p.changed = nil
	k := p.known
	k.Ramps = p.cache.Ramps()
	pure := Overlay(p.table, k, p.now)
	if d := sources.Compare(pure.Table, p.last.Table); len(d.Changes) > 0 || !slices.EqualFunc(pure.Unusual, p.last.Unusual, sameUnusual) || !pure.Wake.Equal(p.last.Wake) {
		p.t.Errorf("the cache has\n%+v\nwant\n%+v", p.last, pure)
	}
	if again := p.cache.Overlay(p.table, p.known, nil, p.now); !again.Services.Same(p.last.Services) {
		p.t.Error("the same again is other memory")
	}
	for _, d := range sources.Compare(was.Table, p.last.Table).Changes {
		if d.Service && d.Was >= 0 && d.Is >= 0 && p.table.Services.At(d.Is).HealthCheck == nil {
			p.t.Errorf("%s: more than endpoints changed", d.FullName())
		}
	}
}

func (p *player) note(events []Event) {
	p.changed = append(p.changed, p.known.Verdicts.Apply(events)...)
	for _, e := range events {
		fmt.Fprintf(&p.out, "%s\n", e)
	}
}

func (p *player) step(words []string) {
	switch words[0] {
	case "good", "bad", "void", "unsent", "agent":
		p.result(words[0], words[1:])
	case "drain", "disable", "weight", "undrain", "unweight":
		p.order(words[0], words[1:])
	case "show":
		p.show()
	case "blind": // WHY: results of targets that are gone
		for i := range blindLeast {
			r := Result{Void: true, Reason: strings.Join(words[1:], " "), At: p.now.Add(time.Duration(i-blindLeast) * blindAfter)}
			p.note(p.board.Record(Key{}, r))
		}
	case "silent": // all endpoints that answer none of their clients
		p.known.Silent = map[netip.AddrPort]bool{}
		for _, w := range words[1:] {
			p.known.Silent[netip.MustParseAddrPort(w)] = true
		}
	case "believe":
		p.board.Believe = true
		p.note(p.board.Tick(p.now))
	case "tick":
	case "table":
		p.use(words[1], nil)
	case "restart":
		served := p.last.Table
		initial := FromKernel(p.table, p.known.Overrides, p.board.Agents(nil), p.kernel(), kernel.RealsOf(p.reals()))
		data, err := p.known.Overrides.MarshalJSON()
		if err != nil {
			p.t.Fatal(err)
		}
		p.board, p.cache, p.last, p.known = Board{}, Cache{}, Overlaid{}, Known{}
		if p.known.Overrides, err = ParseOverrides(data); err != nil {
			p.t.Fatal(err)
		}
		p.use(p.name, initial)
		for i := range served.Services.Len() { // a slow start ends with the restart, but the same endpoints serve
			if a, b := servedBy(served.Services.At(i)), servedBy(p.last.Services.At(i)); !maps.Equal(a, b) {
				p.t.Errorf("the restart moves %v to %v", a, b)
			}
		}
	default:
		p.t.Fatalf("no step %q", words[0])
	}
}

// result gives all targets at the addresses, of all addresses with "all", a result. Words after the addresses are the
// reason.
func (p *player) result(kind string, words []string) {
	r := Result{Good: kind == "good" || kind == "agent", Void: kind == "void", Unsent: kind == "unsent", At: p.now}
	var addrs []string
	for len(words) > 0 && (words[0] == "all" || strings.ContainsAny(words[0], ".:")) {
		addrs, words = append(addrs, words[0]), words[1:]
	}
	r.Reason = strings.Join(words, " ")
	if kind == "agent" {
		r.Agent = true
		for _, word := range words {
			switch {
			case strings.HasSuffix(word, "%"):
				w, _ := ParseWeight(word)
				r.Words.Percent, r.Words.HasPercent = uint16(w.N), true
			case word == "up", word == "down":
				r.Words.Up, r.Words.Down = word == "up", word == "down"
			case word != "ready":
				r.Words.Ask = Ask(slices.Index(askWords[:], word))
				fallthrough
			default:
				r.Words.Asks = true
			}
		}
	}
	for _, target := range p.targets {
		a := target.Addr
		if slices.Contains(addrs, "all") || slices.Contains(addrs, a.String()) || slices.Contains(addrs, a.Addr().String()) {
			p.note(p.board.Record(target.Key, r))
		}
	}
}

// order carries out a verb: drain TARGET [force] [for=30m] [why=...].
func (p *player) order(verb string, words []string) {
	s, err := ParseSelector(words[0])
	if err != nil {
		p.t.Fatal(err)
	}
	o := Override{Selector: s, Verb: Verb(verb), Made: p.now, By: "root"}
	force := false
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "force":
			force = true
		case "for":
			d, err := time.ParseDuration(value)
			if err != nil {
				p.t.Fatal(err)
			}
			o.Until = p.now.Add(d)
		case "why":
			o.Why = value
		default:
			if o.Weight, err = ParseWeight(w); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	var next Overrides
	switch {
	case strings.HasPrefix(verb, "un"):
		next, err = p.known.Overrides.Undo(s, verb == "undrain")
	case !force:
		k := p.known
		k.Ramps = p.cache.Ramps()
		if err = CheckLast(p.table, k, o, p.now); err != nil {
			break
		}
		fallthrough
	default:
		next, err = p.known.Overrides.Add(o)
	}
	if err != nil {
		fmt.Fprintf(&p.out, "refused: %v\n", err)
		return
	}
	p.known.Overrides = next
}

// show prints each endpoint's port as it is served, and why, and holds the explanation to the table.
func (p *player) show() {
	k := p.known
	k.Verdicts = p.board.Verdicts()
	k.Ramps = p.cache.Ramps()
	explainer := NewExplainer(k, p.now)
	for i := range p.table.Services.Len() {
		s := p.table.Services.At(i)
		for _, u := range p.last.Unusual {
			if u.Service == i {
				fmt.Fprintf(&p.out, "%s: %s, %d of %d up\n", s.Name, u.Mode, u.Up, u.Of)
			}
		}
		for _, x := range explainer.Explain(s) {
			weight := fmt.Sprintf("weight %d", x.Weight)
			if x.Cut {
				weight = "cut"
			}
			fmt.Fprintf(&p.out, "%s %s/%s %s: %s\n", s.Name, x.Addr, strings.ToLower(x.Protocol.String()), weight, x.Text(p.now))
			if e := served(p.last.Services.At(i), x); e.Weight != x.Weight || e.Cut != x.Cut || e.Spared != (x.Cause == Spared) {
				p.t.Errorf("%s is explained as %s, and the table has %+v", x.Addr, weight, e)
			}
		}
	}
}

// served returns the endpoint of a port as it is in a table, or one of a weight that none has.
func served(s *sources.Service, x Explained) sources.Endpoint {
	for _, e := range s.Endpoints {
		if e.Addr == x.Addr.Addr() && slices.Contains(e.Ports, sources.EndpointPort{Name: x.Port, Protocol: x.Protocol, Port: x.Addr.Port()}) {
			return e
		}
	}
	return sources.Endpoint{Weight: math.MaxUint32}
}

// kernel and reals are what the table comes to as virtual and real servers.
func (p *player) kernel() (virtuals []kernel.Virtual) {
	for i := range p.last.Services.Len() {
		for a := range p.last.Services.At(i).Addresses {
			virtuals = append(virtuals, kernel.Virtual{Key: virtualKey(a), Scheduler: p.last.Services.At(i).Scheduler})
		}
	}
	return virtuals
}

func virtualKey(a sources.Address) kernel.VirtualKey {
	at := a.Addr
	if a.Kind == sources.KindNodePort {
		at = netip.MustParseAddr("192.0.2.1")
	}
	return kernel.VirtualKey{Addr: at, Port: a.Port, Proto: kernel.Proto(a.Protocol)}
}

func (p *player) reals() (reals []kernel.Real) {
	for i := range p.last.Services.Len() {
		s := p.last.Services.At(i)
		for a := range s.Addresses {
			for _, e := range s.Endpoints {
				for _, own := range e.Ports {
					if own.Name == s.Ports[a.Index].Name && own.Protocol == a.Protocol && !e.Cut && (e.Weight > 0 || kernel.Quiesces(s.Scheduler)) {
						key := kernel.RealKey{Virtual: virtualKey(a), Addr: netip.AddrPortFrom(e.Addr, own.Port)}
						reals = append(reals, kernel.Real{Key: key, Weight: e.Weight})
					}
				}
			}
		}
	}
	return reals
}

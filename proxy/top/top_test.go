package top

import (
	"flag"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/svcproxy/svcproxy/proxy/status"
)

var update = flag.Bool("update", false, "rewrite the frames")

// readings are two, ten seconds apart, with a drain and a service that is new.
func readings() (now, before status.Status) {
	at := time.Date(2026, 11, 20, 9, 31, 0, 0, time.Local)
	endpoint := func(addr string, state status.EndpointState, active, inactive uint64) status.Endpoint {
		return status.Endpoint{Address: netip.MustParseAddrPort(addr), Protocol: "tcp", Weight: 1, State: state, Active: active, Inactive: inactive}
	}
	draining := endpoint("10.2.3.10:8080", status.EndpointDraining, 12, 1)
	draining.Drain = &status.Drain{Since: at.Add(-17 * time.Second), Deadline: at.Add(43 * time.Second)}
	now = status.Status{
		Time: at, Daemon: status.Daemon{Version: "1.0.0", Node: "n1", Started: at.Add(-3 * time.Hour)},
		Problems: []string{"source file: /etc/svcproxy/services.toml:3: web: unknown key \"port\", did you mean \"ports\"?"},
		Totals:   status.Totals{Active: 1312, Inactive: 41, Draining: 1},
		Services: []status.Service{
			{Name: "default/batch", State: status.NoBackends, Reason: "no endpoints"},
			{
				Name: "default/dns", State: status.Serving, Active: 0, Inactive: 9, Backends: status.Backends{Serving: 2},
				Traffic:   status.Traffic{Connections: 5003, InBytes: 90000, OutBytes: 180000},
				Endpoints: []status.Endpoint{endpoint("10.2.1.53:53", status.EndpointServing, 0, 5), endpoint("10.2.2.53:53", status.EndpointServing, 0, 4)},
			},
			{
				Name: "shop/web", State: status.Serving, Active: 1312, Inactive: 32, Backends: status.Backends{Serving: 2, Draining: 1, Unused: 1},
				Traffic: status.Traffic{Connections: 15234, InBytes: 15 << 20, OutBytes: 700 << 20},
				Endpoints: []status.Endpoint{
					with(endpoint("10.2.1.10:8080", status.EndpointServing, 900, 20), 9000, 3<<20, 200<<20),
					with(endpoint("10.2.2.10:8080", status.EndpointServing, 400, 11), 6234, 12<<20, 500<<20), with(draining, 0, 0, 0),
				},
			},
		},
	}
	now.Drains = []status.Draining{{Service: "shop/web", Endpoint: draining}}
	earlier := []status.Endpoint{
		with(endpoint("10.2.1.10:8080", "", 0, 0), 2000, 2<<20, 50<<20), with(endpoint("10.2.2.10:8080", "", 0, 0), 900, 3<<20, 50<<20),
	}
	before = now
	before.Time = at.Add(-10 * time.Second)
	before.Services = []status.Service{
		{Name: "default/dns", Traffic: status.Traffic{Connections: 5000, InBytes: 80000, OutBytes: 160000}},
		{Name: "shop/web", Traffic: status.Traffic{Connections: 2900, InBytes: 5 << 20, OutBytes: 100 << 20}, Endpoints: earlier},
	}
	return now, before
}

func with(e status.Endpoint, conns, in, out uint64) status.Endpoint {
	e.Traffic = &status.Traffic{Connections: conns, InBytes: in, OutBytes: out}
	return e
}

func TestFrame(t *testing.T) {
	now, before := readings()
	views := map[string]View{
		"plain":                {},
		"plain with endpoints": {Endpoints: true},
		"terminal 80x16":       {Endpoints: true, Width: 80, Height: 16},
		"terminal by name":     {Sort: ByName, Width: 100, Height: 14},
		"terminal by bytes":    {Sort: ByBytes, Width: 60, Height: 10},
		"scrolled":             {Endpoints: true, Width: 80, Height: 10, First: 1},
	}
	const path = "testdata/frames.txtar"
	archive, err := txtar.ParseFile(path)
	if err != nil && !*update {
		t.Fatal(err)
	}
	for name, v := range views {
		got := Frame(now, before, v)
		checkSize(t, name, got, v)
		if *update {
			continue
		}
		if want := section(archive, name); got != want {
			t.Errorf("%s:\n%swant:\n%s", name, got, want)
		}
	}
	if *update {
		a := &txtar.Archive{Comment: []byte("Frames of the readings in top_test.go.\n\n")}
		for _, name := range []string{"plain", "plain with endpoints", "terminal 80x16", "terminal by name", "terminal by bytes", "scrolled"} {
			a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(Frame(now, before, views[name]))})
		}
		if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func section(a *txtar.Archive, name string) string {
	for _, f := range a.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

// checkSize: a line too many scrolls the terminal, and a character too many wraps.
func checkSize(t *testing.T, name, frame string, v View) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(frame, "\n"), "\n")
	if v.Height > 0 && len(lines) != v.Height {
		t.Errorf("%s: %d lines, want %d", name, len(lines), v.Height)
	}
	for _, l := range lines {
		if v.Width > 0 && utf8.RuneCountInString(l) > v.Width {
			t.Errorf("%s: %d characters: %s", name, utf8.RuneCountInString(l), l)
		}
	}
}

func TestFirstFrameHasNoRates(t *testing.T) {
	now, _ := readings()
	if frame := Frame(now, status.Status{}, View{}); !strings.Contains(frame, "- new/s") {
		t.Errorf("frame:\n%s", frame)
	}
}

func TestRatesOfAVirtualServerMadeAnew(t *testing.T) {
	got := ratesOf(status.Traffic{Connections: 20}, status.Traffic{Connections: 1000}, 10)
	if got.conns != 2 {
		t.Errorf("%v connections a second, want 2", got.conns)
	}
}

func TestKeys(t *testing.T) {
	for _, c := range []struct {
		keys string
		want View
		quit bool
	}{
		{"b", View{Sort: ByBytes}, false},
		{"ne", View{Sort: ByName, Endpoints: true}, false},
		{"ee", View{}, false},
		{"jj\x1b[B\x1b[A", View{First: 2}, false},
		{"k", View{}, false},
		{"\x1b[6~j", View{First: 11}, false},
		{"\x1b[6~\x1b[H", View{}, false},
		{"\x1b[1;5B\x1b", View{}, false}, // what we do not know, and half of something
		{"bq", View{Sort: ByBytes}, true},
		{"\x03", View{}, true},
	} {
		if got, quit := (View{}).press(c.keys, 10); got != c.want || quit != c.quit {
			t.Errorf("%q: %+v, %v; want %+v, %v", c.keys, got, quit, c.want, c.quit)
		}
	}
}

func TestShown(t *testing.T) {
	now, before := readings()
	for _, c := range []struct {
		view View
		want []string
	}{
		{View{}, nil},
		{View{Endpoints: true}, []string{"shop/web", "default/dns", "default/batch"}},
		{View{Endpoints: true, Sort: ByName, Height: 2}, []string{"default/batch", "default/dns"}},
		{View{Endpoints: true, First: 2}, []string{"default/batch"}},
		{View{Endpoints: true, First: 9}, nil},
	} {
		if got := Shown(now, before, c.view); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.view, got, c.want)
		}
	}
}

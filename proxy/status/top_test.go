package status

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"
)

// readings are two statuses, ten seconds apart, with a drain and a new service.
func readings() (now, before Status) {
	at := time.Date(2026, 11, 20, 9, 31, 0, 0, time.Local)
	endpoint := func(addr string, state EndpointState, active, inactive Count) Endpoint {
		return Endpoint{Address: netip.MustParseAddrPort(addr), Protocol: "tcp", Weight: 1, State: state, Active: active, Inactive: inactive}
	}
	draining := endpoint("10.2.3.10:8080", EndpointDraining, 12, 1)
	draining.Drain = &Drain{Since: at.Add(-17 * time.Second), Deadline: at.Add(43 * time.Second)}
	now = Status{
		Time: at, Daemon: Daemon{Version: "1.0.0", Node: "n1", Started: at.Add(-3 * time.Hour)},
		Problems: []string{"file /etc/svcproxy/services.toml:3: web: unknown key \"port\", did you mean \"ports\"?"},
		Totals:   Totals{Active: 1312, Inactive: 41, Draining: 1},
		Services: []Service{
			{Name: "batch", State: NoBackends, Reason: "no endpoints"},
			{
				Name: "dns", State: Serving, Active: 0, Inactive: 9, Backends: Backends{Serving: 2},
				Traffic:   Traffic{Connections: 5003, InBytes: 90000, OutBytes: 180000},
				Endpoints: []Endpoint{endpoint("10.2.1.53:53", EndpointServing, 0, 5), endpoint("10.2.2.53:53", EndpointServing, 0, 4)},
			},
			{
				Name: "shop/web", State: Serving, Active: 1312, Inactive: 32, Backends: Backends{Serving: 2, Draining: 1, Unused: 1},
				Traffic: Traffic{Connections: 15234, InBytes: 15 << 20, OutBytes: 700 << 20},
				Endpoints: []Endpoint{
					with(endpoint("10.2.1.10:8080", EndpointServing, 900, 20), 9000, 3<<20, 200<<20),
					with(endpoint("10.2.2.10:8080", EndpointServing, 400, 11), 6234, 12<<20, 500<<20), with(draining, 0, 0, 0),
				},
			},
		},
	}
	now.Drains = []Draining{{Service: "shop/web", Endpoint: draining}}
	earlier := []Endpoint{
		with(endpoint("10.2.1.10:8080", "", 0, 0), 2000, 2<<20, 50<<20), with(endpoint("10.2.2.10:8080", "", 0, 0), 900, 3<<20, 50<<20),
	}
	before = now
	before.Time = at.Add(-10 * time.Second)
	before.Services = []Service{
		{Name: "dns", Traffic: Traffic{Connections: 5000, InBytes: 80000, OutBytes: 160000}},
		{Name: "shop/web", Traffic: Traffic{Connections: 2900, InBytes: 5 << 20, OutBytes: 100 << 20}, Endpoints: earlier},
	}
	return now, before
}

// checkedReadings are readings with a health check of web, of which one endpoint is down.
func checkedReadings() (now, before Status) {
	now, before = readings()
	now.Health = &Health{Targets: 3, States: map[HealthState]int{"up": 2, "down": 1}}
	web := &now.Services[2]
	web.Health = &ServiceHealth{Checked: 3, Up: 1, Down: 1, Out: 1}
	web.Endpoints[0].Health = &EndpointHealth{State: "up", Cause: "serves", Text: "up 3h", SourceWeight: 1}
	web.Endpoints[1].Health = &EndpointHealth{State: "down", Cause: "down", Text: "down 12s: refused", SourceWeight: 1}
	web.Endpoints[2].Health = &EndpointHealth{State: "up", Cause: "drained", Text: `drained by root 17s: "kernel upgrade"`, SourceWeight: 1}
	return now, before
}

func with(e Endpoint, conns, in, out uint64) Endpoint {
	e.Traffic = &Traffic{Connections: conns, InBytes: Count(in), OutBytes: Count(out)}
	return e
}

func TestTopFrame(t *testing.T) {
	now, before := readings()
	views := map[string]topView{
		"plain":                {},
		"plain with endpoints": {endpoints: true},
		"terminal 80x16":       {endpoints: true, width: 80, height: 16},
		"terminal by name":     {sort: byName, width: 100, height: 14},
		"terminal by bytes":    {sort: byBytes, width: 60, height: 10},
		"scrolled":             {endpoints: true, width: 80, height: 10, first: 1},
	}
	names := []string{"plain", "plain with endpoints", "terminal 80x16", "terminal by name", "terminal by bytes", "scrolled", "health", "health 120x16"}
	views["health"], views["health 120x16"] = topView{endpoints: true}, topView{endpoints: true, width: 120, height: 16}
	const path = "testdata/top/frames.txtar"
	archive, err := txtar.ParseFile(path)
	if err != nil && !*Update {
		t.Fatal(err)
	}
	frame := func(name string) string {
		if strings.HasPrefix(name, "health") {
			return views[name].frame(checkedReadings())
		}
		return views[name].frame(now, before)
	}
	for name, v := range views {
		got := frame(name)
		checkSize(t, name, got, v)
		if *Update {
			continue
		}
		if want := section(archive, name); got != want {
			t.Errorf("%s:\n%swant:\n%s", name, got, want)
		}
	}
	if *Update {
		a := &txtar.Archive{Comment: []byte("Frames of the readings in top_test.go.\n\n")}
		for _, name := range names {
			a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(frame(name))})
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

// checkSize checks the size of a frame: one line too many scrolls the terminal, one
// character too many wraps.
func checkSize(t *testing.T, name, frame string, v topView) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(frame, "\n"), "\n")
	if v.height > 0 && len(lines) != v.height {
		t.Errorf("%s: %d lines, want %d", name, len(lines), v.height)
	}
	for _, l := range lines {
		if v.width > 0 && utf8.RuneCountInString(l) > v.width {
			t.Errorf("%s: %d characters: %s", name, utf8.RuneCountInString(l), l)
		}
	}
}

func TestTopFirstFrameHasNoRates(t *testing.T) {
	now, _ := readings()
	if frame := (topView{}).frame(now, Status{}); !strings.Contains(frame, "- new/s") {
		t.Errorf("frame:\n%s", frame)
	}
}

func TestRatesOfAVirtualServerMadeAgain(t *testing.T) {
	got := ratesOf(Traffic{Connections: 20}, Traffic{Connections: 1000}, 10)
	if got.conns != 2 {
		t.Errorf("%v connections a second, want 2", got.conns)
	}
}

func TestTopKeys(t *testing.T) {
	for _, c := range []struct {
		keys string
		want topView
		quit bool
	}{
		{"b", topView{sort: byBytes}, false},
		{"ne", topView{sort: byName, endpoints: true}, false},
		{"ee", topView{}, false},
		{"jj\x1b[B\x1b[A", topView{first: 2}, false},
		{"k", topView{}, false},
		{"\x1b[6~j", topView{first: 11}, false},
		{"\x1b[6~\x1b[H", topView{}, false},
		{"\x1b[1;5B\x1b", topView{}, false}, // an unknown sequence, and a part of one
		{"bq", topView{sort: byBytes}, true},
		{"\x03", topView{}, true},
	} {
		if got, quit := (topView{}).press(c.keys, 10); got != c.want || quit != c.quit {
			t.Errorf("%q: %+v, %v; want %+v, %v", c.keys, got, quit, c.want, c.quit)
		}
	}
}

func TestTopShown(t *testing.T) {
	now, before := readings()
	for _, c := range []struct {
		view topView
		want []string
	}{
		{topView{}, nil},
		{topView{endpoints: true}, []string{"shop/web", "dns", "batch"}},
		{topView{endpoints: true, sort: byName, height: 2}, []string{"batch", "dns"}},
		{topView{endpoints: true, first: 2}, []string{"batch"}},
		{topView{endpoints: true, first: 9}, nil},
	} {
		if got := c.view.shown(now, before); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.view, got, c.want)
		}
	}
}

// Where new connections alone are counted, top has dashes for the rest.
func TestTopNewOnly(t *testing.T) {
	now, before := readings()
	now.Uncounted, before.Uncounted, now.NewOnly, before.NewOnly = true, true, true, true
	frame := topView{endpoints: true}.frame(now, before)
	for _, want := range []string{"connections: - active, - inactive, 1.2k new/s; in -/s, out -/s", "shop/web", "1.2k"} {
		if !strings.Contains(frame, want) {
			t.Errorf("no %q in\n%s", want, frame)
		}
	}
	before.NewOnly = false // the map was made again
	if frame := (topView{}).frame(now, before); !strings.Contains(frame, "- new/s") {
		t.Error(frame)
	}
}

// Where nothing counts connections, top has dashes.
func TestTopUncounted(t *testing.T) {
	now, before := readings()
	now.Uncounted, before.Uncounted = true, true
	frame := topView{}.frame(now, before)
	if !strings.Contains(frame, "connections: - active, - inactive, - new/s; in -/s, out -/s") || strings.Contains(frame, "15.2k") {
		t.Error(frame)
	}
}

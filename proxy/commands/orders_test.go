package commands

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/proxy/daemon"
	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/status"
	"github.com/svcproxy/svcproxy/sources"
)

// book keeps orders.
type book struct{ list health.Overrides }

func (b *book) Order(o health.Override, _ bool) (err error) {
	b.list, err = b.list.Add(o)
	return err
}

func (b *book) TakeBack(s health.Selector, outs bool, _ health.Author) (err error) {
	b.list, err = b.list.Undo(s, outs)
	return err
}

func (b *book) Overrides() health.Overrides { return b.list }

// asking runs commands against a daemon's control socket.
type asking struct {
	*testing.T
	out string // path of what commands print
	err strings.Builder
}

func ask(t *testing.T, s *control.Server) *asking {
	t.Helper()
	dir := t.TempDir()
	a := &asking{T: t, out: filepath.Join(dir, "out")}
	s.Log, s.Events = slog.New(slog.DiscardHandler), new(events.Ring)
	l, err := control.Listen(daemon.Socket(dir), s.Log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "node.toml"), []byte("runtimeDir = \""+dir+"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// run runs a command and returns what it printed, and its exit code.
func (a *asking) run(args ...string) (string, int) {
	a.Helper()
	out, err := os.Create(a.out)
	if err != nil {
		a.Fatal(err)
	}
	defer out.Close()
	a.err.Reset()
	e := &Env{Out: out, Err: &a.err, Version: "1.2.3"}
	p := cli.Program{Name: "svcproxy", Flags: e.Flags, Commands: []cli.Command{
		Drain(e), Undrain(e), Disable(e), Weight(e), Overrides(e), Health(e), Node(e),
	}}
	err = p.Run(a.Context(), append(args, "--config", filepath.Join(filepath.Dir(a.out), "node.toml")), out)
	code := cli.Tell(&a.err, err)
	text, err := os.ReadFile(a.out)
	if err != nil {
		a.Fatal(err)
	}
	return string(text), code
}

// orderable is a server with two endpoints, one of them with these connections.
func orderable(left func() uint64) (*control.Server, *book) {
	var b book
	at := []netip.AddrPort{netip.MustParseAddrPort("10.2.0.1:80"), netip.MustParseAddrPort("10.2.0.2:80")}
	now := func() status.Status {
		return status.Status{Services: []status.Service{{Name: "web", Endpoints: []status.Endpoint{
			{Address: at[0], Protocol: "tcp", Active: status.Count(left()), Inactive: 333},
			{Address: at[1], Protocol: "tcp", Active: 7},
		}}}}
	}
	return &control.Server{
		Orders: &b, Applied: func(context.Context, []health.Place) error { return nil },
		Places: func(s health.Selector) (list []health.Place) {
			for _, x := range at {
				if s.Addr == x.Addr() {
					list = append(list, health.Place{Service: "web", Protocol: sources.TCP, Addr: x})
				}
			}
			return list
		},
		Status: func(context.Context) status.Status { return now() },
		Detail: func(context.Context, []string) status.Status { return now() },
	}, &b
}

// TestOrderCommands: what each prints, and what the daemon is asked for.
func TestOrderCommands(t *testing.T) {
	s, b := orderable(func() uint64 { return 0 })
	a := ask(t, s)
	for _, c := range []struct{ args, want, kept string }{
		{"drain 10.2.0.1 --reason upgrade", "10.2.0.1: drained, 1 endpoint\n", "10.2.0.1 drain upgrade"},
		{"drain 10.2.0.9", "10.2.0.9: drained, 0 endpoints\n", "10.2.0.1 drain upgrade, 10.2.0.9 drain "},
		{"undrain 10.2.0.9", "10.2.0.9: undrained, 0 endpoints\n", "10.2.0.1 drain upgrade"},
		{"weight 10.2.0.2 50% -s web", "web/10.2.0.2: weight 50%, 1 endpoint\n", "10.2.0.1 drain upgrade, web/10.2.0.2 weight "},
		{"weight web/10.2.0.2 default", "web/10.2.0.2: weight as in the files, 1 endpoint\n", "10.2.0.1 drain upgrade"},
		{"disable 10.2.0.1", "10.2.0.1: disabled, 1 endpoint\n", "10.2.0.1 disable "},
	} {
		out, code := a.run(strings.Fields(c.args)...)
		var kept []string
		for _, o := range b.list {
			kept = append(kept, o.Selector.String()+" "+string(o.Verb)+" "+o.Why)
		}
		if out != c.want || code != 0 || strings.Join(kept, ", ") != c.kept {
			t.Errorf("%s: exit code %d, %q, kept %q; %s", c.args, code, out, kept, &a.err)
		}
	}
	if out, _ := a.run("disable", "10.2.0.2", "-o", "json"); !strings.Contains(out, `"address": "10.2.0.2:80"`) || strings.Contains(out, "connectionsLeft") {
		t.Error(out)
	}
	if out, code := a.run("overrides"); code != 0 || !strings.HasPrefix(out, "TARGET    ORDER    SINCE  ENDS  BY") || strings.Count(out, "\n") != 3 {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if out, code := a.run("overrides", "-o", "json"); code != 0 || !strings.Contains(out, `"version": 1`) {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

// TestDrainWaits: --wait ends when no connection is active, whatever else IPVS remembers, and exits 1 at its limit.
func TestDrainWaits(t *testing.T) {
	active := uint64(3)
	s, _ := orderable(func() uint64 { active--; return active })
	a := ask(t, s)
	out, code := a.run("drain", "10.2.0.1", "--wait")
	if code != 0 || !strings.HasSuffix(out, "connections: 0 active, 333 closing\n") ||
		!strings.Contains(a.err.String(), "waiting for 0s: connections: 2 active, 333 closing") {
		t.Errorf("exit code %d: %s%s", code, out, &a.err)
	}
	s, _ = orderable(func() uint64 { return 1 })
	a = ask(t, s)
	if out, code = a.run("drain", "10.2.0.1", "--wait=1s", "-o", "json"); code != cli.Failed ||
		!strings.Contains(out, `"connectionsLeft": 1`) || !strings.Contains(out, `"connectionsClosing": 333`) {
		t.Errorf("exit code %d: %s%s", code, out, &a.err)
	}
}

// In a pair node drain says what becomes of connections before it gives the order, and waits for VIPs alone: IPVS still
// counts connections that the other node has.
func TestNodeDrainInAPair(t *testing.T) {
	s, _ := orderable(func() uint64 { return 1 })
	drained, asked := false, 0
	s.DrainNode = func(bool, health.Author) error { drained = true; return nil }
	s.Status = func(context.Context) status.Status {
		at := netip.MustParseAddrPort("192.0.2.80:80")
		st := status.Status{
			Totals:    status.Totals{Active: 100},
			ConnSync:  []status.ConnSync{{Role: "master", State: status.ConnSyncRunning}, {Role: "backup"}},
			Services:  []status.Service{{Name: "web", Virtuals: []status.Virtual{{Address: at, Kind: status.KindClusterIP}}}},
			Announced: []status.Announced{{Address: at.Addr(), Moved: true, Link: "eth0"}},
		}
		if drained {
			asked++
		}
		if asked > 1 {
			st.Announced[0].Link = ""
		}
		return st
	}
	a := ask(t, s)
	out, code := a.run("node", "drain", "--wait")
	want := "svcproxy: keepalived will move the VIPs to the other node\n" +
		"svcproxy: connections of web go on, by connection sync\n" +
		"svcproxy: waiting for 0s: VIPs here: 1\n"
	if code != 0 || a.err.String() != want {
		t.Errorf("exit code %d: %s%s", code, out, &a.err)
	}
	asked = -100
	if out, code = a.run("node", "drain", "--wait=1s"); code != cli.Failed ||
		!strings.Contains(a.err.String(), "no other node has taken the VIPs after 1s: VIPs here: 1") {
		t.Errorf("exit code %d: %s%s", code, out, &a.err)
	}
}

// Where nothing counts connections, a wait could only end at once or never.
func TestWaitNeedsCounts(t *testing.T) {
	if err := counted(status.Status{}); err != nil {
		t.Error(err)
	}
	err := counted(status.Status{Uncounted: true, Daemon: status.Daemon{Mode: "iptables"}})
	if cli.Code(err) != cli.Failed || !strings.Contains(err.Error(), "mode iptables does not count connections") {
		t.Error(err)
	}
}

func TestOverridesText(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	one := health.Override{Selector: health.Selector{Node: "worker-1"}, Verb: health.Drain, Made: now.Add(-time.Hour), Until: now.Add(30 * time.Minute), By: "root", Why: "upgrade"}
	two := health.Override{
		Selector: health.Selector{Addr: netip.MustParseAddr("10.2.0.1"), Service: "default/web"}, Verb: health.Reweigh, Weight: health.Weight{N: 50, Percent: true},
		Made: now.Add(-time.Minute), By: "ann", Unmatched: now.Add(-time.Second),
	}
	want := `
TARGET         ORDER       SINCE  ENDS    BY    REASON
node=worker-1  drain       1h     in 30m  root  upgrade
web/10.2.0.1   weight 50%  1m     -       ann   (no endpoint for 1s)
`
	if got := "\n" + overridesText(health.Overrides{one, two}, now, 0, false); got != want {
		t.Errorf("%s\nwant%s", got, want)
	}
}

// TestHealthProbe: one probe, with its steps; the exit code says whether it is good.
func TestHealthProbe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	up := netip.MustParseAddrPort(l.Addr().String())
	check := sources.DefaultHealthCheck()
	check.Probe.Type = sources.CheckTCP
	ports := []sources.EndpointPort{{Protocol: sources.TCP, Port: up.Port()}}
	table := sources.Table{Services: sources.ServicesOf(
		sources.Service{Namespace: "default", Name: "web", Type: sources.ClusterIP, HealthCheck: &check, Endpoints: []sources.Endpoint{{Addr: up.Addr(), Ports: ports, Weight: 1, Ready: true}}},
		sources.Service{Namespace: "default", Name: "dns", Type: sources.ClusterIP, Endpoints: []sources.Endpoint{{Addr: up.Addr(), Ports: ports, Weight: 1, Ready: true}}},
	)}
	a := ask(t, &control.Server{Orders: new(book), Probes: func(s health.Selector) control.Probes {
		return control.Probes{Version: "1.2.3", Probes: control.ProbesOf(table, s)}
	}})
	out, code := a.run("health", "probe", "web/127.0.0.1")
	if code != 0 || !strings.HasPrefix(out, "web "+up.String()+": tcp "+up.String()+"\n  connected ") || !strings.Contains(out, "\nok, after ") {
		t.Errorf("exit code %d: %s%s", code, out, &a.err)
	}
	if out, code = a.run("health", "probe", "web/"+up.String(), "-o", "json"); code != 0 || !strings.Contains(out, `"step": "connected"`) || !strings.Contains(out, `"good": true`) {
		t.Errorf("exit code %d: %s%s", code, out, &a.err)
	}
	l.Close()
	if out, code = a.run("health", "probe", "web/127.0.0.1"); code != cli.Failed || !strings.Contains(out, "\nbad: refused, after ") {
		t.Errorf("exit code %d: %s%s", code, out, &a.err)
	}
	if _, code = a.run("health", "probe", "dns/127.0.0.1"); code != cli.Failed || !strings.Contains(a.err.String(), "has no health check") {
		t.Errorf("exit code %d: %s", code, &a.err)
	}
	if _, code = a.run("health", "probe", "web/127.0.0.2"); code != cli.Failed || !strings.Contains(a.err.String(), "no service has the endpoint") {
		t.Errorf("exit code %d: %s", code, &a.err)
	}
}

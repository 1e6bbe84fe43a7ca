package status_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/announce"
	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/mode/iptables"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/proxy/status"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

// mode is mode ipvs. With the file "fallback", "REASON (HINT)", it is mode iptables instead.
func (s *stage) mode() (mode.Mode, status.Daemon) {
	about := status.Daemon{
		Version: "1.0.0", Node: "n1", PID: 4711, Mode: "ipvs", IPTables: "iptables v1.8.9 (nf_tables)", Files: []string{"/etc/svcproxy/services.toml"},
		Config: status.Config{File: "/etc/svcproxy/svcproxy.toml"},
	}
	for _, f := range s.archive.Files {
		if f.Name == "fallback" {
			reason, hint, _ := strings.Cut(strings.TrimSuffix(string(f.Data), ")\n"), " (")
			about.Mode, about.ModeReason = "iptables", "ipvs cannot be used: "+reason
			about.Fallbacks = []status.Fallback{{Mode: "ipvs", Reason: reason, Hint: hint}}
			return new(iptables.Mode), about
		}
	}
	return new(ipvs.Mode), about
}

// TestScenarios runs testdata/*.txtar: the loop with the rules, a fake kernel and a
// fake clock. The file "script" has one command a line:
//
//	serve FILE                      a source delivers the services in FILE
//	refuse FILE                     it refuses FILE and keeps its last table
//	lose TEXT...                    it cannot read: this is the error
//	conns VIRTUAL REAL ACTIVE INACTIVE
//	traffic VIRTUAL CONNECTIONS IN OUT
//	foreign VIRTUAL SCHEDULER       another program makes a virtual server
//	firewall CHAIN                  a firewall drops what none of its rules accepts
//	fail [TEXT]                     the kernel refuses the ops with TEXT in them
//	undo                            another program removes all real servers
//	probe ENDPOINT ok|void|REASON... [expires=DURATION] [warning: TEXT]
//	order TARGET drain|disable|weight [WEIGHT] [WHY...]
//	node-drain, node-undrain        the operator drains the node
//	blind [WHY...]                  no probe tells anything, or they do again
//	pass DURATION
//	status [-width N] FORMAT [SERVICE] > FILE
//	events > FILE
func TestScenarios(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) { play(t, archive) })
			if *status.Update && !t.Failed() {
				if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// stage is a running loop with everything that reads it.
type stage struct {
	t       *testing.T
	archive *txtar.Archive
	source  chan emission
	kernel  *fake.Kernel
	reader  *status.Reader
	proxy   *proxy.Proxy
	ring    *events.Ring
	probes  *probes
	health  *events.Health
	last    sources.Table
	traffic map[kernel.VirtualKey]kernel.Traffic

	mu      sync.Mutex
	fail    string
	drained time.Time

	// Of the loop's goroutine.
	memory announce.Memory
}

// announces reports whether the scenario has the file "announce": VIPs are announced then.
func (s *stage) announces() bool {
	return slices.ContainsFunc(s.archive.Files, func(f txtar.File) bool { return f.Name == "announce" })
}

// announcing returns the usual settings.
func (s *stage) announcing() announce.Config {
	c := announce.Config{
		Mode: announce.Off, Table: 143, Metric: 100, DrainMetric: 2000, MinHealthy: 1, Require: announce.All,
		HoldUp: 5 * time.Second, DrainTime: 30 * time.Second, WithdrawWait: 3 * time.Second,
	}
	if s.announces() {
		c.Mode = announce.Routes
	}
	return c
}

// Keep keeps VIPs that were removed until routers know.
func (s *stage) Keep(m sources.Merged, have *kernel.Observed) sources.Merged {
	c := s.announcing()
	m, s.memory = announce.Keep(&c, s.memory, m, have.Announcements, time.Now())
	return m
}

// Announce decides with the usual settings.
func (s *stage) Announce(
	f *frontend.Frontends, want *kernel.State, have *kernel.Observed, _ kernel.Now,
) (announce.Decision, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := announce.Input{Frontends: f, Want: want, Have: have, Drained: s.drained}
	d, next, wake := announce.Step(s.announcing(), s.memory, in, time.Now())
	s.memory = next
	return d, wake
}

type emission struct {
	table sources.Table
	err   error
}

func (s *stage) Watch(ctx context.Context, emit func(sources.Table, error)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-s.source:
			emit(e.table, e.err)
		}
	}
}

// Read returns the counters of the fake kernel.
func (s *stage) Read(ctx context.Context) (kernel.Counters, error) {
	var c kernel.Counters
	state := s.kernel.State()
	for _, v := range state.Virtuals {
		c.Virtuals = append(c.Virtuals, kernel.VirtualCounters{Key: v.Key, Traffic: s.traffic[v.Key]})
	}
	for _, r := range state.Reals.All() {
		conns, err := s.kernel.Conns(ctx, []kernel.RealKey{r.Key})
		if err != nil {
			return c, err
		}
		c.Reals = append(c.Reals, kernel.RealCounters{Key: r.Key, Weight: r.Weight, Active: conns[0].Active, Inactive: conns[0].Inactive})
	}
	c.Flows, c.MaxFlows = 1200, 262144
	return c, nil
}

// Reals returns the traffic of real servers: each has half of its virtual server's.
func (s *stage) Reals(_ context.Context, virtuals []kernel.VirtualKey) ([]kernel.RealTraffic, error) {
	var all []kernel.RealTraffic
	for _, v := range virtuals {
		for _, r := range s.kernel.State().Reals.All() {
			if half := s.traffic[v]; r.Key.Virtual == v {
				half.Conns, half.InBytes, half.OutBytes = half.Conns/2, half.InBytes/2, half.OutBytes/2
				all = append(all, kernel.RealTraffic{Key: r.Key, Traffic: half})
			}
		}
	}
	return all, nil
}

func play(t *testing.T, archive *txtar.Archive) {
	node := kernel.Node{
		Name:  "n1",
		Addrs: []kernel.NodeAddr{{Prefix: netip.MustParsePrefix("192.0.2.1/24"), Link: "eth0"}}, Release: kernel.Release{Major: 6, Minor: 1},
	}
	s := &stage{
		t: t, archive: archive, source: make(chan emission), kernel: fake.New(kernel.DefaultNames, node, kernel.State{}),
		ring: new(events.Ring), probes: new(probes), traffic: map[kernel.VirtualKey]kernel.Traffic{},
	}
	s.kernel.Fail = func(o kernel.Op) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.fail != "" && strings.Contains(o.String(), s.fail) {
			return syscall.EPERM
		}
		return nil
	}
	s.health = &events.Health{
		Ring: s.ring, Log: slog.New(slog.DiscardHandler), Table: func() sources.Table { return s.probes.view().Table }, Users: s.probes.users,
	}
	used, about := s.mode()
	recorder, history := &events.Recorder{Ring: s.ring}, new(status.Recorder)
	p := proxy.New(proxy.Options{
		Kernel: s.kernel, Feeds: []proxy.Feed{{Name: "file", Source: s}}, Log: slog.New(slog.DiscardHandler), SyncPeriod: 30 * time.Second,
		Rules: func(table sources.Merged, n kernel.Node, occupied []string) (*frontend.Frontends, kernel.State) {
			f := frontend.List(table.Table, n, frontend.Config{Announce: s.announces()})
			c := mode.Config{Names: kernel.DefaultNames, MasqueradeBit: 14, Hold: table.Keeps, Occupied: occupied}
			return f, used.State(f, c)
		},
		OnSource: recorder.Source, Health: s.probes, Announcer: s,
	})
	s.proxy = p
	p.OnSync = func(now *proxy.Snapshot) {
		s.memory = s.memory.Ended(now.Report.Left == 0, now.Announced, time.Now())
		history.Synced(now.Report)
		recorder.Synced(now)
		view := s.probes.view()
		s.health.Synced(view.Table, view.Unusual)
	}
	started := time.Now()
	s.reader = &status.Reader{Proxy: p, Recorder: history, Counters: s, Health: s.probes.view, Daemon: func() status.Daemon {
		about.Started = started
		return about
	}}
	s.reader.Due = func(health.Key) (time.Time, bool) { return time.Now().Add(1500 * time.Millisecond), true }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- p.Run(ctx) }()
	for line := range strings.Lines(s.file("script")) {
		s.command(strings.Fields(line))
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func (s *stage) command(words []string) {
	s.t.Helper()
	if len(words) == 0 {
		return
	}
	args, to := words[1:], ""
	if n := len(args); n > 1 && args[n-2] == ">" {
		args, to = args[:n-2], args[n-1]
	}
	switch words[0] {
	case "serve", "refuse":
		s.emit(args[0], words[0] == "refuse")
	case "lose":
		s.source <- emission{err: errors.New(strings.Join(args, " "))}
	case "conns":
		var c kernel.Conns
		s.scan(args[2:], &c.Active, &c.Inactive)
		s.kernel.SetConns(kernel.RealKey{Virtual: s.key(args[0]), Addr: netip.MustParseAddrPort(args[1])}, c)
	case "traffic":
		var c kernel.Traffic
		s.scan(args[1:], &c.Conns, &c.InBytes, &c.OutBytes)
		s.traffic[s.key(args[0])] = c
	case "foreign":
		s.apply(kernel.Op{Object: kernel.Virtual{Key: s.key(args[0]), Scheduler: args[1], Netmask: 32}})
	case "firewall":
		s.kernel.SetFirewall([]kernel.BaseChain{{Family: kernel.IPv4, Hook: "input", Policy: "drop", Name: strings.Join(args, " "), Rules: "-i lo -j ACCEPT"}})
	case "node":
		s.node(args)
	case "undo":
		for _, r := range s.kernel.State().Reals.All() {
			s.apply(kernel.Op{Verb: kernel.Remove, Object: r})
		}
	case "fail":
		s.mu.Lock()
		s.fail = strings.Join(args, " ")
		s.mu.Unlock()
	case "probe":
		s.probe(args[0], args[1:])
	case "order":
		s.order(args)
	case "node-drain", "node-undrain":
		s.mu.Lock()
		s.drained = time.Time{}
		if words[0] == "node-drain" {
			s.drained = time.Now()
		}
		s.mu.Unlock()
		s.proxy.Replan()
	case "blind":
		s.blind(strings.Join(args, " "))
	case "pass":
		d, err := time.ParseDuration(args[0])
		s.check(err)
		time.Sleep(d)
		s.tick()
	case "status":
		s.status(args, to)
	case "health":
		s.checks(args, to)
	case "events":
		s.events(to)
	default:
		s.t.Fatalf("unknown command %q", words)
	}
	synctest.Wait()
	time.Sleep(time.Millisecond)
	synctest.Wait()
}

// node sets the node's addresses, "ADDRESS/LENGTH%LINK", and gateways, "via
// ADDRESS".
func (s *stage) node(words []string) {
	n := kernel.Node{Name: "n1", Release: kernel.Release{Major: 6, Minor: 1}}
	for i, word := range words {
		prefix, link, isAddr := strings.Cut(word, "%")
		switch {
		case isAddr:
			n.Addrs = append(n.Addrs, kernel.NodeAddr{Prefix: netip.MustParsePrefix(prefix), Link: link})
		case i > 0 && words[i-1] == "via":
			n.Gateways = append(n.Gateways, netip.MustParseAddr(word))
		}
	}
	s.kernel.SetNode(n)
	s.proxy.Check(proxy.CauseNode)
}

func (s *stage) emit(name string, refuse bool) {
	seen := time.Now()
	time.Sleep(50 * time.Millisecond)
	table, _, problems := file.Decode("/etc/svcproxy/"+name, []byte(s.file(name)))
	if refuse {
		s.source <- emission{s.last, &sources.RejectedError{Files: []string{name}, Problems: problems}}
		return
	}
	if len(problems) > 0 {
		s.t.Fatalf("%s: %v", name, problems)
	}
	table.Seen, s.last = seen, table
	s.source <- emission{table: table}
}

func (s *stage) status(args []string, to string) {
	v := status.View{}
	if args[0] == "-width" {
		s.scan(args[1:2], &v.Width)
		args = args[2:]
	}
	var err error
	v.Format, err = status.ParseFormat(args[0])
	s.check(err)
	if len(args) > 1 {
		v.Service = args[1]
	}
	st := s.reader.Status(s.t.Context())
	switch {
	case v.Service != "":
		st = s.reader.Detail(s.t.Context(), []string{v.Service})
	case v.Format != status.JSON:
		st = st.WithoutEndpoints()
	}
	var b bytes.Buffer
	s.check(status.Print(&b, st, v))
	if verdict := st.Verdict(v.Service); verdict != status.Well {
		fmt.Fprintf(&b, "exit %d\n", verdict)
	}
	s.want(to, b.String())
}

// checks prints what svcproxy health does.
func (s *stage) checks(args []string, to string) {
	v := status.View{}
	if args[0] == "-width" {
		s.scan(args[1:2], &v.Width)
		args = args[2:]
	}
	var err error
	v.Format, err = status.ParseFormat(args[0])
	s.check(err)
	var b bytes.Buffer
	s.check(status.PrintChecks(&b, s.reader.Checks(s.t.Context(), args[1:]), v))
	s.want(to, b.String())
}

func (s *stage) events(to string) {
	list, _, _ := s.ring.After(0)
	var b strings.Builder
	for _, e := range list {
		fmt.Fprintln(&b, e.Line(false))
	}
	s.want(to, b.String())
}

// want compares a text with a file of the scenario, or writes it with -update.
func (s *stage) want(name, got string) {
	s.t.Helper()
	if *status.Update {
		for i := range s.archive.Files {
			if s.archive.Files[i].Name == name {
				s.archive.Files[i].Data = []byte(got)
				return
			}
		}
		s.archive.Files = append(s.archive.Files, txtar.File{Name: name, Data: []byte(got)})
		return
	}
	if want := s.file(name); got != want {
		s.t.Errorf("%s:\n%swant:\n%s", name, got, want)
	}
}

func (s *stage) file(name string) string {
	for _, f := range s.archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	s.t.Fatalf("no file %s", name)
	return ""
}

// key parses tcp:10.96.0.1:80.
func (s *stage) key(text string) kernel.VirtualKey {
	name, addr, _ := strings.Cut(text, ":")
	proto, err := kernel.ParseProto(name)
	s.check(err)
	return kernel.VirtualAt(netip.MustParseAddrPort(addr), proto)
}

func (s *stage) apply(o kernel.Op) {
	s.check(s.kernel.Apply(s.t.Context(), kernel.Plan{Ops: []kernel.Op{o}}))
}

func (s *stage) scan(words []string, into ...any) {
	_, err := fmt.Sscan(strings.Join(words, " "), into...)
	s.check(err)
}

func (s *stage) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

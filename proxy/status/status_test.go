package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

// big is the input for this many services with this many endpoints each.
func big(services, endpoints int) Input {
	var t sources.Table
	for i := range services {
		s := sources.Service{
			Namespace: "default", Name: fmt.Sprintf("s%05d", i), Type: sources.ClusterIP,
			ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})},
			Ports:      []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 8080}},
			Origin:     sources.Origin{Source: "file", File: "/etc/svcproxy/services.toml", Line: i},
		}
		for j := range endpoints {
			s.Endpoints = append(s.Endpoints, sources.Endpoint{
				Addr: netip.AddrFrom4([4]byte{10, byte(128 + j), byte(i >> 8), byte(i)}), Weight: 1, Ready: true, Serving: true,
				Ports: []sources.EndpointPort{{Protocol: sources.TCP, Port: 8080}},
			})
		}
		t.Services = t.Services.Append(s)
	}
	f := frontend.List(t, kernel.Node{Name: "n1"}, frontend.Config{})
	want := ipvs.State(f, mode.Config{Names: kernel.DefaultNames})
	in := Input{Now: time.Now(), Healthy: true, Snapshot: &proxy.Snapshot{Table: t, Frontends: f, Want: want}}
	for _, v := range want.Virtuals {
		in.Counters.Virtuals = append(in.Counters.Virtuals, kernel.VirtualCounters{Key: v.Key, Traffic: kernel.Traffic{Conns: 1}})
	}
	for _, r := range want.Reals.All() {
		in.Counters.Reals = append(in.Counters.Reals, kernel.RealCounters{Key: r.Key, Weight: r.Weight, Active: 1})
	}
	return in
}

func TestNewCountsEverythingOnce(t *testing.T) {
	st := New(big(300, 3))
	if st.Totals.Services != 300 || st.Totals.Active != 900 || st.Totals.Traffic.Connections != 300 || st.Totals.Reals != 900 {
		t.Errorf("totals %+v", st.Totals)
	}
	for _, s := range st.Services {
		if s.State != Serving || len(s.Endpoints) != 3 || s.Active != 3 || s.Backends != (Backends{Serving: 3}) {
			t.Fatalf("%+v", s)
		}
	}
}

// A VIP that another host answers for is a conflict of its services and a problem.
func TestVIPOfAnotherHost(t *testing.T) {
	in := big(3, 1)
	taken := kernel.Taken{Claim: kernel.Claim{Addr: netip.MustParseAddr("10.96.0.1"), Link: "eth0"}, MAC: "02:00:00:00:00:09"}
	in.History = in.History.After(proxy.Report{Planned: time.Now(), Plan: kernel.Plan{Taken: []kernel.Taken{taken}}})
	st := New(in)
	want := "conflict: 10.96.0.1 is not bound: another host, 02:00:00:00:00:09 on eth0, answers for it"
	if st.Totals.VIPs != len(in.Snapshot.Want.Addrs)-1 {
		t.Errorf("%d VIPs are bound", st.Totals.VIPs)
	}
	if len(st.Conflicts) != 1 || st.Conflicts[0].Service != "s00001" || !slices.Contains(st.Problems, want) {
		t.Errorf("conflicts %+v, problems %q", st.Conflicts, st.Problems)
	}
	for i, s := range st.Services {
		if (s.State == Conflicting) != (i == 1) {
			t.Errorf("%s is %s: %s", s.Name, s.State, s.Reason)
		}
	}
}

func BenchmarkNew(b *testing.B) {
	in := big(5000, 10)
	b.ReportAllocs()
	for b.Loop() {
		New(in)
	}
}

func BenchmarkJSON(b *testing.B) {
	st := New(big(5000, 10))
	for name, st := range map[string]Status{"all": st, "without endpoints": st.WithoutEndpoints()} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				text, err := json.Marshal(st)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(len(text)), "bytes")
			}
		})
	}
}

// failing is the report of a sync in which the kernel refused this many ops.
func failing(n int, at time.Time) proxy.Report {
	r := proxy.Report{Start: at, Planned: at}
	failed := &kernel.ApplyError{}
	for i := range n {
		op := kernel.Op{Object: kernel.Addr{Addr: netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}), Link: "kube-ipvs0"}}
		r.Plan.Ops = append(r.Plan.Ops, op)
		failed.Failed = append(failed.Failed, &kernel.OpError{Index: i, Op: op, Err: errors.New("no")})
	}
	r.Err = failed
	return r
}

func TestPastOfFaults(t *testing.T) {
	at := time.Unix(1000, 0)
	p := History{}.After(failing(2, at)).After(failing(3, at.Add(time.Second)))
	if len(p.faults) != 3 || p.faults[0].count != 2 || p.faults[0].since != at || p.faults[2].count != 1 || p.faults[2].since != at.Add(time.Second) {
		t.Errorf("faults %+v", p.faults)
	}
	if p.failures != 2 || p.since != at || p.change != nil {
		t.Errorf("%d failures since %v, change %v", p.failures, p.since, p.change)
	}
	// If the kernel cannot be read, the faults of the sync before stay.
	unread := p.After(proxy.Report{Err: errors.New("no memory"), Start: at})
	if len(unread.faults) != 3 || unread.failures != 3 {
		t.Errorf("%d faults and %d failures after a failed reading", len(unread.faults), unread.failures)
	}
	if p = p.After(proxy.Report{Start: at.Add(time.Minute), Planned: at.Add(time.Minute)}); len(p.faults) != 0 || p.failures != 0 || !p.since.IsZero() {
		t.Errorf("after a success: %+v", p)
	}
	if p = p.After(failing(5000, at)); len(p.faults) != maxFaults || p.refused != 5000 {
		t.Errorf("%d faults of %d", len(p.faults), p.refused)
	}
}

func TestVerdict(t *testing.T) {
	st := func(states ...State) *Status {
		var s Status
		for i, state := range states {
			s.Services = append(s.Services, Service{Name: fmt.Sprintf("s%d", i), State: state})
		}
		return &s
	}
	degraded := st(Serving)
	degraded.Problems = []string{"something"}
	for name, c := range map[string]struct {
		st      *Status
		service string
		want    Verdict
	}{
		"all well":                   {st(Serving, NotServed, Partly), "", Well},
		"without backends":           {st(Serving, NoBackends), "", Empty},
		"another is without":         {st(Serving, NoBackends), "s0", Well},
		"this one is without":        {st(Serving, NoBackends), "s1", Empty},
		"degraded first":             {st(NoBackends, Conflicting), "", Degraded},
		"degraded as a whole":        {degraded, "", Degraded},
		"degraded, but not this one": {degraded, "s0", Well},
		"left out":                   {st(LeftOut), "s0", Degraded},
		"refused":                    {st(Refused), "", Degraded},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.st.Verdict(c.service); got != c.want {
				t.Errorf("exit code %d, want %d", got, c.want)
			}
		})
	}
}

// /healthz and systemd name the same services without backends as status.
func TestWithoutBackendsIsWhatStatusCounts(t *testing.T) {
	node := kernel.Node{Name: "n1", Addrs: []kernel.NodeAddr{{Prefix: netip.MustParsePrefix("192.0.2.7/24"), Link: "eth0"}}}
	node.Primary4 = netip.MustParseAddr("192.0.2.7")
	table, _, problems := file.DecodeServices("file", "services.toml", []byte(`[services.empty]
clusterIP = "10.96.0.1"
ports = [ { port = 80 } ]
[services.drained]
clusterIP = "10.96.0.2"
ports = [ { port = 80, nodePort = 30080 } ]
endpoints = [ { address = "10.2.0.1", weight = 0 } ]
[services.half]
clusterIP = "10.96.0.3"
ports = [ { name = "a", port = 80 }, { name = "b", port = 81 } ]
endpoints = [ { address = "10.2.0.2", ports = { a = 8080 } } ]
[services.node]
ports = [ { port = 80, nodePort = 30081 } ]
endpoints = [ "10.2.0.3" ]
[services.good]
clusterIPs = ["10.96.0.4", "fd00::4"]
ports = [ { port = 80 } ]
endpoints = [ "10.2.0.4" ]
[services.ipv6]
clusterIPs = ["10.96.0.5", "fd00::5"]
ports = [ { name = "a", port = 80 }, { name = "b", port = 81 } ]
endpoints = [ "10.2.0.5" ]
`))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	// Port a of this service asks for an IPv6 address, too, which a host without IPv6
	// does not serve. So it is without backends and not just withheld.
	i := slices.IndexFunc(table.Services.Slice(), func(s sources.Service) bool { return s.Name == "ipv6" })
	table.Services.At(i).Withheld = []sources.Withheld{{Claim: sources.Claim{Addr: netip.MustParseAddr("10.96.0.5"), Port: 80, Protocol: sources.TCP}}}
	c := config.Default().ForMode()
	f := frontend.List(table, node, c.Frontends)
	now := &proxy.Snapshot{Table: table, Node: node, Frontends: f, Want: ipvs.State(f, c)}
	st := New(Input{Now: time.Now(), Snapshot: now})
	var want []string
	for _, s := range st.Services {
		if s.State == NoBackends {
			want = append(want, s.Name)
		}
	}
	if got := now.WithoutBackends(); !slices.Equal(got, want) || len(got) < 2 || !slices.Contains(got, "ipv6") {
		t.Errorf("%q, and status finds %q", got, want)
	}
}

// Setting the clock does not change how long ago something was.
func TestStep(t *testing.T) {
	for _, c := range []struct{ elapsed, shown, want time.Duration }{
		{time.Minute, time.Minute + time.Microsecond, 0},
		{time.Minute, time.Minute - 24*time.Hour, -24 * time.Hour},
		{time.Minute, time.Minute + 24*time.Hour, 24 * time.Hour},
	} {
		if got := step(c.elapsed, c.shown); got != c.want {
			t.Errorf("%v elapsed, shown as %v: %v, want %v", c.elapsed, c.shown, got, c.want)
		}
	}
}

// A firewall in the way has an exit code.
func TestVerdictOfAFirewallInTheWay(t *testing.T) {
	in := big(1, 1)
	in.Snapshot.Report.Causes = proxy.CausesOf(proxy.CauseStart)
	if st := New(in); st.Verdict("") != Well {
		t.Errorf("without one: %v", st.Problems)
	}
	in.Snapshot.Warnings, in.Snapshot.Barred = []string{"iptables filter INPUT: no rule accepts"}, 1
	st := New(in)
	if st.Verdict("") != Degraded {
		t.Error("exit code", st.Verdict(""))
	}
	var b strings.Builder
	if err := Print(&b, st, View{Format: Table}); err != nil {
		t.Fatal(err)
	}
	want := "degraded:\n  " + Barred + "\n    iptables filter INPUT: no rule accepts\n"
	if text := b.String(); !strings.Contains(text, want) || strings.Contains(text, "warnings:") {
		t.Errorf("want %q:\n%s", want, text)
	}
}

// The remedy of a problem does not lead back to where it was read.
func TestRemediesMend(t *testing.T) {
	st := Status{
		Sources: []Source{{Name: sources.Files}, {Name: sources.Files, Delivered: true, Errors: []string{"services.toml:3: no port"}}},
		Services: []Service{{Name: "web", State: Missing}, {Name: "api", State: LeftOut},
			{Name: "dns", Withheld: []string{"udp 53"}, Health: &ServiceHealth{Groups: []HealthGroup{{Mode: HealthMode(health.FailOpen.String())}}}}},
		Totals: Totals{Missing: 1, Barred: 1}, Conflicts: []Conflict{{Text: "-t 192.0.2.1:80 is another program's"}},
		Health: &Health{Blind: "no sockets", Held: time.Now(), Panic: 1}, Daemon: Daemon{Config: Config{Error: "svcproxy.toml:1: no key"}},
	}
	var all []problem
	for _, st.Sync.Error = range []string{"", "no"} {
		all = append(all, st.found()...)
	}
	st.Faults = []Fault{{Op: "add -t 192.0.2.1:80", Error: "no such file"}}
	all = append(all, st.found()...)
	for _, p := range all {
		if p.mend == "" || regexp.MustCompile(`^svcproxy (status|doctor|explain|events|health|check)\b`).MatchString(p.mend) {
			t.Errorf("%s: %q", p.text, p.mend)
		}
	}
	if len(all) != 39 {
		t.Errorf("%d problems, not all: %q", len(all), all)
	}
}

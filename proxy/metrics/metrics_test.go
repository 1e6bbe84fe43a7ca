package metrics

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/health/probe"
	"github.com/svcproxy/svcproxy/proxy/status"
	"github.com/svcproxy/svcproxy/sources"
)

var update = flag.Bool("update", false, "rewrite testdata/metrics.txt")

// at returns metrics of a daemon with this status.
func at(s status.Status) *Metrics {
	return New(Options{
		Version: "1.2.3", Rules: true, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Status: func(context.Context) status.Status { return s },
		Frontends: func() *frontend.Frontends {
			return frontend.List(remote(), kernel.Node{Name: "n1"}, frontend.Config{IPv6: true})
		},
		Queued: func() time.Time { return time.Unix(1700000000, 5e8) },
		Work:   func() Work { return work },
		Late:   func() Lateness { return late }, Outcomes: []string{"void", "ok", "status", "timeout"},
	})
}

// remote is a table with one service under policy Local that has no endpoint here.
func remote() sources.Table {
	return sources.Table{Services: sources.ServicesOf(sources.Service{
		Namespace: "default", Name: "db", Type: sources.ClusterIP, InternalTrafficPolicy: sources.Local, ExternalTrafficPolicy: sources.Local,
		ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.2")}, ExternalIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")},
		Ports: []sources.Port{{Protocol: sources.TCP, Port: 5432}},
		Endpoints: []sources.Endpoint{{
			Addr: netip.MustParseAddr("10.2.0.9"), NodeName: "n2", Weight: 1, Ready: true, Serving: true,
			Ports: []sources.EndpointPort{{Protocol: sources.TCP, Port: 5432}},
		}},
	})}
}

var work = Work{
	Sockets:       []Socket{{Name: "ipvs", Messages: 4, Queries: 2, Syscalls: 9}},
	IPTablesReads: 2, IPTablesWrites: 1,
	Tracked: map[kernel.Family]Tracked{kernel.IPv4: {Deleted: 3, Took: 2 * time.Millisecond}, kernel.IPv6: {}},
}

// late are four probes: one on time, two a little late, one 12 s late.
var late = Lateness{
	Probes: 4, Sum: 12*time.Second + 60*time.Millisecond, Counts: []uint64{0: 1, 3: 2, 11: 1}, Bounds: probe.LateBounds(),
}

// scrape returns the lines that are not comments.
func scrape(t *testing.T, m *Metrics, query string) []string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics"+query, nil))
	if w.Code != 200 {
		t.Fatalf("code %d: %s", w.Code, w.Body)
	}
	return slices.DeleteFunc(strings.Split(strings.TrimSpace(w.Body.String()), "\n"), func(l string) bool { return strings.HasPrefix(l, "#") })
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	for _, line := range want {
		if !slices.Contains(got, line) {
			name, _, _ := strings.Cut(line, " ")
			name, _, _ = strings.Cut(name, "{")
			t.Errorf("no line\n%s\nbut\n%s", line, strings.Join(slices.DeleteFunc(slices.Clone(got), func(l string) bool { return !strings.HasPrefix(l, name) }), "\n"))
		}
	}
}

// shop is a status in which every list has something.
func shop() status.Status {
	now := time.Unix(1700000000, 0)
	port := func(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }
	return status.Status{
		Time: now, Healthy: true, Problems: []string{"one"}, Warnings: []string{"one", "two"},
		Daemon:    status.Daemon{Mode: "ipvs"},
		Sync:      status.Sync{Failures: 2},
		Sources:   []status.Source{{Name: "file", Delivered: true, Errors: []string{"services.toml:3: no"}, Since: now}},
		Conflicts: []status.Conflict{{}},
		Totals:    status.Totals{Reals: 3, Draining: 1, Faults: 4, VIPs: 2, RoutedVIP: 1},
		Conntrack: &status.Conntrack{Count: 10, Max: 100},
		Announced: []status.Announced{{Address: netip.MustParseAddr("192.0.2.9"), Announced: true, Metric: 100}, {Address: netip.MustParseAddr("192.0.2.10"), Reason: "down"},
			{Address: netip.MustParseAddr("192.0.2.11"), Moved: true, Link: "eth0", Announced: true},
			{Address: netip.MustParseAddr("192.0.2.12"), Moved: true}, {Address: netip.MustParseAddr("192.0.2.13"), Moved: true, Uncounted: true}},
		Health: &status.Health{
			Targets: 3, States: map[status.HealthState]int{"up": 2, "down": 1}, Blind: "void", ExecWaiting: 3,
			Overrides: []status.Override{{Verb: "drain"}, {Verb: "drain"}, {Verb: "weight"}},
		},
		Services: []status.Service{
			{
				Name: "default/db", State: status.NoBackends, InternalPolicy: "Local", ExternalPolicy: "Local",
				Virtuals: []status.Virtual{
					{Address: port("10.96.0.2:5432"), Kind: status.KindClusterIP},
					{Address: port("192.0.2.1:30000"), Kind: status.KindNodePort},
				},
				Endpoints: []status.Endpoint{{Address: port("10.2.0.9:5432"), State: status.EndpointUnused}},
			},
			{
				Name: "default/web", State: status.Serving, Active: 7, Health: &status.ServiceHealth{Checked: 2, Up: 1, Down: 1, Groups: []status.HealthGroup{{Mode: "below limit"}}}, Backends: status.Backends{Serving: 2, Draining: 1},
				Traffic: status.Traffic{Connections: 1 << 40, InPackets: 2, OutPackets: 3, InBytes: 4, OutBytes: 5},
				Refused: kernel.Refusals{kernel.Denied: 8, kernel.OverRate: 0},
				Virtuals: []status.Virtual{
					{Address: port("10.96.0.1:80"), Kind: status.KindClusterIP, Backends: 2},
					{Address: port("[fd00::1]:80"), Kind: status.KindClusterIP, Conflict: "theirs"},
				},
				Endpoints: []status.Endpoint{
					{Address: port("10.2.0.1:8080"), Protocol: "tcp", Port: "http", Weight: 1, State: status.EndpointServing, Active: 5, Inactive: 6, Health: &status.EndpointHealth{State: "up", Expires: now.Add(time.Hour)}},
					{Address: port("10.2.0.2:8080"), Protocol: "tcp", Port: "http", State: status.EndpointDraining, Drain: &status.Drain{Since: now.Add(-time.Minute)}, Health: &status.EndpointHealth{State: "down"}},
				},
			},
			{Name: "default/web", State: status.LeftOut},
			{Name: "kube-system/dns", State: status.NotServed},
		},
	}
}

// Where nothing counts connections there are no series of them: a 0 would say that there are none.
func TestUncounted(t *testing.T) {
	st := shop()
	st.Uncounted, st.Daemon.Mode, st.Daemon.ConfiguredMode = true, "iptables", "iptables"
	text := scrape(t, at(st), "?endpoints=*")
	wantLines(t, text, `svcproxy_mode_info{configured="iptables",mode="iptables",reason=""} 1`, `svcproxy_service_backends{name="default/web",service="default/web"} 2`)
	for _, series := range []string{"active_connections", "service_connections_total", "_bytes_total{", "inactive"} {
		if strings.Contains(strings.Join(text, "\n"), series) {
			t.Errorf("there are series of %s", series)
		}
	}
}

// Where new connections alone are counted there are no other series of connections.
func TestNewOnly(t *testing.T) {
	st := shop()
	st.Uncounted, st.NewOnly = true, true
	web := &st.Services[slices.IndexFunc(st.Services, func(s status.Service) bool { return len(s.Endpoints) > 0 })]
	web.Endpoints[0].Traffic = &status.Traffic{Connections: 7}
	text := scrape(t, at(st), "?endpoints=*")
	wantLines(t, text, `svcproxy_service_connections_total{name="default/web",service="default/web"} 1.099511627776e+12`)
	all := strings.Join(text, "\n")
	if !strings.Contains(all, "svcproxy_endpoint_connections_total{") {
		t.Error("no series of the endpoint")
	}
	for _, series := range []string{"active_connections", "_bytes_total{", "_packets_total{", "inactive"} {
		if strings.Contains(all, series) {
			t.Errorf("there are series of %s", series)
		}
	}
}

func TestStatusIsExported(t *testing.T) {
	wantLines(t, scrape(t, at(shop()), ""),
		`svcproxy_build_info{goversion="`+runtime.Version()+`",version="1.2.3"} 1`,
		`svcproxy_healthy 1`, `svcproxy_problems 1`, `svcproxy_warnings 2`, `svcproxy_mode_info{configured="",mode="ipvs",reason=""} 1`,
		`svcproxy_sync_failures_in_a_row 2`, `svcproxy_refused_objects 4`, `svcproxy_conflicts 1`,
		`svcproxy_source_ok{source="file"} 0`, `svcproxy_source_delivered{source="file"} 1`, `svcproxy_source_since_timestamp_seconds{source="file"} 1.7e+09`,
		`svcproxy_services{state="no backends"} 1`, `svcproxy_services{state="serving"} 1`, `svcproxy_services{state="left out"} 1`,
		`svcproxy_services{state="not served"} 1`, `svcproxy_services{state="partly"} 0`, `svcproxy_services{state="conflict"} 0`,
		`svcproxy_virtual_servers{state="serving"} 1`, `svcproxy_virtual_servers{state="no backends"} 2`, `svcproxy_virtual_servers{state="conflict"} 1`,
		`svcproxy_real_servers{state="wanted"} 3`, `svcproxy_real_servers{state="draining"} 1`, `svcproxy_oldest_drain_seconds 60`,
		`svcproxy_vips{binding="address"} 2`, `svcproxy_vips{binding="route"} 1`,
		`svcproxy_vip_announced{address="192.0.2.9"} 1`, `svcproxy_vip_announced{address="192.0.2.10"} 0`, `svcproxy_vip_announced_metric{address="192.0.2.9"} 100`,
		`svcproxy_vip_here{address="192.0.2.11"} 1`, `svcproxy_vip_here{address="192.0.2.12"} 0`,
		`svcproxy_vip_offered{address="192.0.2.11"} 1`, `svcproxy_vip_offered{address="192.0.2.12"} 0`,
		`svcproxy_conntrack_entries 10`, `svcproxy_conntrack_entries_limit 100`,
		`svcproxy_service_backends{name="default/db",service="default/db"} 0`, `svcproxy_service_backends{name="default/web",service="default/web"} 2`,
		`svcproxy_service_active_connections{name="default/web",service="default/web"} 7`, `svcproxy_service_connections_total{name="default/web",service="default/web"} 1.099511627776e+12`,
		`svcproxy_service_packets_total{direction="in",name="default/web",service="default/web"} 2`, `svcproxy_service_packets_total{direction="out",name="default/web",service="default/web"} 3`,
		`svcproxy_service_refusals_total{name="default/web",reason="denied",service="default/web"} 8`,
		`svcproxy_service_refusals_total{name="default/web",reason="rate",service="default/web"} 0`,
		`svcproxy_service_bytes_total{direction="in",name="default/web",service="default/web"} 4`, `svcproxy_service_bytes_total{direction="out",name="default/web",service="default/web"} 5`,
		`kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4",traffic_policy="internal"} 1`,
		`kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4",traffic_policy="external"} 1`,
		`kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv6",traffic_policy="internal"} 0`,
		`svcproxy_netlink_messages_total{kind="change",socket="ipvs"} 4`, `svcproxy_netlink_syscalls_total{socket="ipvs"} 9`,
		`svcproxy_iptables_runs_total{kind="write"} 1`,
		`kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family="IPv4"} 3`,
		`kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv6"} 1.7000000005e+09`,
	)
}

// Every state has a series, so that their sum is the number of services, and
// every cause has one before its first sync.
func TestEveryStateHasASeries(t *testing.T) {
	var s status.Status
	var want []string
	for _, state := range status.States() {
		s.Services = append(s.Services, status.Service{Name: "default/" + string(state), State: state})
		want = append(want, fmt.Sprintf("svcproxy_services{state=%q} 1", state))
	}
	s.Services[0].Virtuals = []status.Virtual{{Backends: 1}, {}, {Missing: true}, {Backends: 1, Gone: 1}, {Conflict: "theirs"}}
	want = append(want, `svcproxy_virtual_servers{state="serving"} 1`, `svcproxy_virtual_servers{state="no backends"} 1`,
		`svcproxy_virtual_servers{state="missing"} 2`, `svcproxy_virtual_servers{state="conflict"} 1`)
	for _, cause := range proxy.Causes() {
		want = append(want, fmt.Sprintf(`svcproxy_syncs_total{cause=%q,result="ok"} 0`, cause))
	}
	wantLines(t, scrape(t, at(s), ""), want...)
}

// Dashboard and alerts select states and causes that exist.
func TestDashboardSelectsKnownValues(t *testing.T) {
	known := []string{"wanted", "draining", "serving", "up", "down"} // states of real servers, virtual servers and endpoints
	for _, s := range status.States() {
		known = append(known, string(s))
	}
	for _, c := range proxy.Causes() {
		known = append(known, string(c))
	}
	selector := regexp.MustCompile(`(?:state|cause)!?=~?\\?"([^"\\]+)\\?"`)
	for _, path := range []string{"../../packaging/grafana/svcproxy.json", "../../packaging/prometheus/svcproxy.rules.yml"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := selector.FindAllStringSubmatch(string(text), -1)
		for _, m := range found {
			for _, value := range strings.Split(m[1], "|") {
				if !slices.Contains(known, value) {
					t.Errorf("%s selects %q, which no series has", path, value)
				}
			}
		}
		if len(found) == 0 {
			t.Errorf("%s selects no state", path)
		}
	}
}

// Endpoints have series only on request.
func TestEndpointsOnRequest(t *testing.T) {
	m := at(shop())
	const web = `svcproxy_endpoint_active_connections{endpoint="10.2.0.1:8080",name="default/web",port="http",protocol="tcp",service="default/web"} 5`
	const db = `svcproxy_endpoint_weight{endpoint="10.2.0.9:5432",name="default/db",port="",protocol="",service="default/db"} 0`
	for query, want := range map[string][]bool{"": {false, false}, "?endpoints=default/web": {true, false}, "?endpoints=*": {true, true}} {
		lines := scrape(t, m, query)
		if got := []bool{slices.Contains(lines, web), slices.Contains(lines, db)}; !slices.Equal(got, want) {
			t.Errorf("query %q has endpoints of web, db: %v, want %v", query, got, want)
		}
	}
}

// report is of a sync that took 10 ms and programmed a change from 30 ms before it.
func report(ops []kernel.Op, err error) proxy.Report {
	start := time.Unix(1700000000, 0)
	return proxy.Report{
		Causes: proxy.CausesOf(proxy.CauseTable), Start: start, Duration: 10 * time.Millisecond,
		Seen: start.Add(-30 * time.Millisecond), Changed: start.Add(-5 * time.Millisecond), Planned: start.Add(4 * time.Millisecond),
		Plan: kernel.Plan{Ops: ops}, Err: err,
	}
}

func table(names ...string) sources.Table {
	var t sources.Table
	for _, n := range names {
		t.Services = t.Services.Append(sources.Service{Namespace: "default", Name: n, Endpoints: []sources.Endpoint{{Addr: netip.MustParseAddr("10.2.0.1")}}})
	}
	return t
}

func TestSyncsAreCounted(t *testing.T) {
	m := at(status.Status{})
	chain := kernel.Op{Verb: kernel.Add, Object: kernel.Chain{Family: kernel.IPv6, Table: "nat", Name: "KUBE-SERVICES"}}
	link := kernel.Op{Verb: kernel.Add, Object: kernel.Link{Name: "kube-ipvs0", Type: "dummy"}}
	m.Synced(&proxy.Snapshot{Report: report([]kernel.Op{chain, link}, nil), Sourced: true, Delta: sources.Compare(table(), table("a", "b"))})
	refused := &kernel.ApplyError{Failed: []*kernel.OpError{{Op: chain, Err: errors.New("no")}}}
	m.Synced(&proxy.Snapshot{Report: report([]kernel.Op{chain, link}, refused), Sourced: true, Delta: sources.Compare(table("a", "b"), table("a", "b", "c"))})
	wantLines(t, scrape(t, m, ""),
		`svcproxy_syncs_total{cause="table",result="ok"} 1`, `svcproxy_syncs_total{cause="table",result="failed"} 1`, `svcproxy_syncs_total{cause="period",result="ok"} 0`,
		`svcproxy_sync_operations_total{kind="chain",verb="add"} 1`, `svcproxy_sync_operations_total{kind="link",verb="add"} 2`,
		`svcproxy_sync_failed_operations_total{kind="chain"} 1`, `svcproxy_sync_failed_operations_total{kind="flow"} 0`,
		`svcproxy_change_duration_seconds_sum{stage="parse"} 0.025`, `svcproxy_change_duration_seconds_sum{stage="plan"} 0.009`,
		`svcproxy_change_duration_seconds_sum{stage="apply"} 0.006`, `svcproxy_change_duration_seconds_count{stage="total"} 1`,
		`kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv4"} 2`,
		`kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"} 1.70000000001e+09`,
		`kubeproxy_network_programming_duration_seconds_sum{ip_family="IPv6"} 0.04`, `kubeproxy_network_programming_duration_seconds_count{ip_family="IPv6"} 1`,
		`kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv6"} 1`, `kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv4"} 0`,
		`kubeproxy_conntrack_reconciler_sync_duration_seconds_sum{ip_family="IPv4"} 0.002`, `kubeproxy_conntrack_reconciler_sync_duration_seconds_count{ip_family="IPv4"} 1`,
		`kubeproxy_sync_proxy_rules_service_changes_total 3`, `kubeproxy_sync_proxy_rules_service_changes_pending 1`,
		`kubeproxy_sync_proxy_rules_endpoint_changes_total 3`, `kubeproxy_sync_proxy_rules_endpoint_changes_pending 1`,
	)
	m.Synced(&proxy.Snapshot{Report: report(nil, nil)})
	wantLines(t, scrape(t, m, ""),
		`kubeproxy_sync_proxy_rules_service_changes_total 3`, `kubeproxy_sync_proxy_rules_service_changes_pending 0`,
		`kubeproxy_sync_proxy_rules_endpoint_changes_pending 0`)
}

// Mode iptables has kube-proxy's metrics of rules, and only that mode.
func TestRulesAreCounted(t *testing.T) {
	m := at(status.Status{})
	chain := kernel.Chain{Family: kernel.IPv4, Table: "nat", Name: "KUBE-SERVICES", Rules: "-j A\n-j B"}
	other := kernel.Chain{Family: kernel.IPv4, Table: "nat", Name: "KUBE-NODEPORTS", Rules: "-j C"}
	empty := kernel.Chain{Family: kernel.IPv6, Table: "filter", Name: "KUBE-SERVICES"}
	want := kernel.State{Chains: []kernel.Chain{other, chain, empty}}
	add := func(chains ...kernel.Chain) (ops []kernel.Op) {
		for _, c := range chains {
			ops = append(ops, kernel.Op{Verb: kernel.Add, Object: c})
		}
		return ops
	}
	start := report(add(chain, other, empty), nil)
	start.Full = true
	m.Synced(&proxy.Snapshot{Report: start, Want: want})
	m.Synced(&proxy.Snapshot{Report: report(add(other), nil), Want: want})
	m.Synced(&proxy.Snapshot{Report: report(nil, nil), Want: want})
	refused := &kernel.ApplyError{Failed: []*kernel.OpError{{Op: add(chain)[0], Err: errors.New("no")}}}
	m.Synced(&proxy.Snapshot{Report: report(add(chain), refused), Want: want})
	wantLines(t, scrape(t, m, ""),
		`kubeproxy_sync_proxy_rules_iptables_total{ip_family="IPv4",table="nat"} 3`, `kubeproxy_sync_proxy_rules_iptables_last{ip_family="IPv4",table="nat"} 1`,
		`kubeproxy_sync_proxy_rules_iptables_total{ip_family="IPv6",table="filter"} 0`,
		`kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv4"} 1`, `kubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family="IPv6"} 3`,
		`kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total{ip_family="IPv4"} 1`,
		`kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total{ip_family="IPv6"} 0`,
	)
	o := m.options
	o.Rules = false
	if text := strings.Join(scrape(t, New(o), ""), "\n"); strings.Contains(text, "rules_iptables_total") || !strings.Contains(text, `kubernetes_build_info{`) {
		t.Errorf("mode ipvs:\n%s", text)
	}
}

// Repairs are counted as drift, other ops are not.
func TestDriftIsCounted(t *testing.T) {
	m := at(status.Status{})
	entry := kernel.Op{Verb: kernel.Add, Object: kernel.Entry{Set: "KUBE-CLUSTER-IP"}}
	drained := kernel.Op{Verb: kernel.Remove, Object: kernel.Real{}}
	r := report([]kernel.Op{entry, drained}, nil)
	m.Synced(&proxy.Snapshot{Report: r})
	wantLines(t, scrape(t, m, ""), `svcproxy_drift_corrections_total{kind="entry"} 0`)
	r.Repairs = []kernel.Op{entry}
	m.Synced(&proxy.Snapshot{Report: r})
	wantLines(t, scrape(t, m, ""), `svcproxy_drift_corrections_total{kind="entry"} 1`, `svcproxy_drift_corrections_total{kind="real"} 0`)
}

// The first sync has two ops for each endpoint. Counting them must not make a text of each.
func TestCountingDoesNotGrowWithTheTable(t *testing.T) {
	allocs := func(ops int) float64 {
		m := at(status.Status{})
		r := proxy.Report{Planned: time.Unix(1, 0)}
		for range ops {
			r.Plan.Ops = append(r.Plan.Ops, kernel.Op{Object: kernel.Real{Weight: 1}})
		}
		r.Repairs = r.Plan.Ops
		s := proxy.Snapshot{Report: r}
		return testing.AllocsPerRun(10, func() { m.Synced(&s) })
	}
	if few, many := allocs(10), allocs(10000); many > few {
		t.Errorf("%v allocations for 10 ops, %v for 10,000", few, many)
	}
}

// A sync that could not read the kernel applied no op.
func TestSyncWithoutAPlan(t *testing.T) {
	m := at(status.Status{})
	r := report([]kernel.Op{{Object: kernel.Link{}}}, errors.New("no kernel"))
	r.Planned = time.Time{}
	m.Synced(&proxy.Snapshot{Report: r})
	wantLines(t, scrape(t, m, ""), `svcproxy_syncs_total{cause="table",result="failed"} 1`, `svcproxy_sync_operations_total{kind="link",verb="add"} 0`)
}

func TestOthersAreCounted(t *testing.T) {
	m := at(status.Status{})
	m.Answered("/healthz", 503)
	m.Answered("/livez", 200)
	m.Request("200", "GET", "api:6443")
	m.Latency("GET", "api:6443", 300*time.Millisecond)
	wantLines(t, scrape(t, m, ""), `svcproxy_config_last_reload_successful 1`)
	m.Reloaded(errors.New("no"))
	wantLines(t, scrape(t, m, ""),
		`kubeproxy_proxy_healthz_total{code="200"} 0`, `kubeproxy_proxy_healthz_total{code="503"} 1`, `kubeproxy_proxy_livez_total{code="200"} 1`,
		`rest_client_requests_total{code="200",host="api:6443",method="GET"} 1`, `rest_client_request_duration_seconds_bucket{host="api:6443",verb="GET",le="0.5"} 1`,
		`svcproxy_config_reloads_total{result="refused"} 1`, `svcproxy_config_last_reload_successful 0`)
	m.Reloaded(nil)
	wantLines(t, scrape(t, m, ""), `svcproxy_config_reloads_total{result="accepted"} 1`, `svcproxy_config_last_reload_successful 1`)
}

// TestNames compares names, types, labels and buckets with testdata/metrics.txt. The kubeproxy_* and
// rest_client_* lines are from the registry of kube-proxy v1.34.4 in mode iptables.
func TestNames(t *testing.T) {
	m := at(shop())
	m.Request("200", "GET", "api:6443")
	m.Latency("GET", "api:6443", time.Second)
	m.Probed(sources.CheckTCP, "ok", false, 0)
	now := prometheus.NewRegistry()
	now.MustRegister(m.collectorOf(shop(), "*"))
	metrics, err := prometheus.Gatherers{m.registry, now}.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, family := range metrics {
		if name := family.GetName(); !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			fmt.Fprintln(&got, describe(family))
		}
	}
	if *update {
		if err := os.WriteFile("testdata/metrics.txt", []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("metrics are\n%s\nwant\n%s", &got, want)
	}
}

// describe is one line for a metric: name, type, labels, buckets.
func describe(f *dto.MetricFamily) string {
	line := []string{f.GetName(), strings.ToLower(f.GetType().String())}
	first := f.GetMetric()[0]
	for _, l := range first.GetLabel() {
		line = append(line, l.GetName())
	}
	if h := first.GetHistogram(); h != nil {
		line = append(line, "le:")
		for _, b := range h.GetBucket() {
			line = append(line, fmt.Sprint(b.GetUpperBound()))
		}
	}
	return strings.Join(line, " ")
}

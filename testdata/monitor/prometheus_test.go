package monitor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	dashboard  = "../../packaging/grafana/svcproxy.json"
	alerts     = "../../packaging/prometheus/svcproxy.rules.yml"
	alertTests = "../../packaging/prometheus/svcproxy.rules.test.yml"
)

// need skips a test where one of Debian's programs is missing.
func need(t *testing.T, program, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("no %s here; Debian's package is called %s", program, pkg)
	}
	return path
}

// TestPrometheus has a real Prometheus scrape a svcproxy at work, and asks it everything that the
// dashboards and alerts ask: all of it returns numbers.
func TestPrometheus(t *testing.T) {
	program := need(t, "prometheus", "prometheus")
	n := start(t, tableOf(shop()...))
	base := prometheus(t, program, n)
	queries := append(upstreamQueries(t), ownQueries(t)...)
	if len(queries) < 40 {
		t.Fatalf("only %d queries found", len(queries))
	}
	// Something has to happen between two scrapes, or there is no rate of it.
	round := 0
	await(t, "every query returns data", func() bool {
		services := shop()
		services[0].Endpoints = services[0].Endpoints[round%2:]
		n.table.Set(tableOf(services...), nil)
		for _, code := range []string{"200", "304", "404", "500"} {
			n.metrics.Request(code, "GET", "127.0.0.1:6443")
		}
		n.metrics.Latency("GET", "127.0.0.1:6443", 3*time.Millisecond)
		n.metrics.Latency("POST", "127.0.0.1:6443", 5*time.Millisecond)
		if round++; round%20 != 0 {
			return false
		}
		var missing []string
		for _, q := range queries {
			if ok, err := answered(base, q); err != nil {
				t.Fatalf("%s: %v", q, err)
			} else if !ok {
				missing = append(missing, q)
			}
		}
		if len(missing) > 0 && round > 1000 {
			t.Fatalf("no data for\n%s", strings.Join(missing, "\n"))
		}
		return len(missing) == 0
	})
	t.Logf("%d queries returned data", len(queries))
	wantAlertsEvaluated(t, base)
	wantMetricsOfAlerts(t, n)
}

// prometheus starts one that scrapes a node as the job kube-proxy, and gives its address.
func prometheus(t *testing.T, program string, n *node) string {
	t.Helper()
	dir := t.TempDir()
	rules, err := filepath.Abs(alerts)
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`
global: {scrape_interval: 500ms, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - job_name: kube-proxy
    static_configs: [{targets: [%q]}]
`, rules, n.site)
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	free.Close()
	var said bytes.Buffer
	cmd := exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus said\n%s", &said)
		}
	})
	base := "http://" + addr
	await(t, "prometheus is ready", func() bool {
		resp, err := http.Get(base + "/-/ready")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusOK
	})
	return base
}

// ask asks Prometheus' API.
func ask(url string, data any) error {
	resp, err := http.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", answer.Status, answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

// answered says whether a query returns a number.
func answered(base, query string) (bool, error) {
	var data struct {
		Result []struct{ Value [2]any }
	}
	if err := ask(base+"/api/v1/query?query="+url.QueryEscape(query), &data); err != nil {
		return false, err
	}
	for _, r := range data.Result {
		text, _ := r.Value[1].(string)
		if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
			return true, nil
		}
	}
	return false, nil
}

// inserted puts values in place of a dashboard's variables. Without a label cluster, $cluster is empty.
var inserted = strings.NewReplacer("$cluster", "", "$instance", ".*", "$job", ".*", "$service", ".*", "$__rate_interval", "1m")

func upstreamQueries(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("testdata/kubernetes-proxy.promql")
	if err != nil {
		t.Fatal(err)
	}
	var queries []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			queries = append(queries, inserted.Replace(line))
		}
	}
	return queries
}

// ownQueries are those of our dashboard: of its panels, and of its lists of values.
func ownQueries(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(dashboard)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels     []struct{ Targets []struct{ Expr string } }
		Templating struct {
			List []struct{ Type, Definition string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	var queries []string
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			queries = append(queries, inserted.Replace(target.Expr))
		}
	}
	values := regexp.MustCompile(`^label_values\((.*), \w+\)$`)
	for _, v := range d.Templating.List {
		if m := values.FindStringSubmatch(v.Definition); m != nil {
			queries = append(queries, inserted.Replace(m[1]))
		} else if v.Type == "query" {
			t.Errorf("variable %q is not understood", v.Definition)
		}
	}
	return queries
}

// wantAlertsEvaluated: Prometheus has no trouble with the rules, and nothing is wrong with the node but what
// the table has: services without backends.
func wantAlertsEvaluated(t *testing.T, base string) {
	t.Helper()
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError, State string }
		}
	}
	await(t, "the alerts are evaluated", func() bool {
		if err := ask(base+"/api/v1/rules", &data); err != nil {
			t.Fatal(err)
		}
		return len(data.Groups) == 1 && data.Groups[0].Rules[0].Health != "unknown"
	})
	for _, r := range data.Groups[0].Rules {
		if r.Health != "ok" {
			t.Errorf("alert %s: %s %s", r.Name, r.Health, r.LastError)
		}
		if r.State != "inactive" && r.Name != "SvcproxyServiceWithoutBackends" {
			t.Errorf("alert %s is %s", r.Name, r.State)
		}
	}
}

// wantMetricsOfAlerts: an alert on a metric that is not there would never fire.
func wantMetricsOfAlerts(t *testing.T, n *node) {
	t.Helper()
	rules, err := os.ReadFile(alerts)
	if err != nil {
		t.Fatal(err)
	}
	have := scrape(t, n, "")
	found := 0
	for line := range strings.Lines(string(rules)) {
		if !strings.Contains(line, "expr:") {
			continue
		}
		for _, name := range regexp.MustCompile(`(svcproxy|kubeproxy)_\w+`).FindAllString(line, -1) {
			found++
			if !strings.Contains(have, "\n"+name+"{") && !strings.Contains(have, "\n"+name+" ") {
				t.Errorf("there is no metric %s", name)
			}
		}
	}
	if found < 16 {
		t.Errorf("only %d metrics found in the alerts", found)
	}
}

func scrape(t testing.TB, n *node, query string) string {
	t.Helper()
	resp, err := http.Get("http://" + n.site.String() + "/metrics" + query)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %v", resp.Status, err)
	}
	return string(text)
}

// TestPromtool has Prometheus' own linter look at metrics and alerts. One name is not what it wants, and is
// kube-proxy's.
func TestPromtool(t *testing.T) {
	program := need(t, "promtool", "prometheus")
	n := start(t, tableOf(shop()...))
	n.metrics.Request("200", "GET", "127.0.0.1:6443")
	n.metrics.Latency("GET", "127.0.0.1:6443", time.Millisecond)
	cmd := exec.Command(program, "check", "metrics")
	cmd.Stdin = strings.NewReader(scrape(t, n, "?endpoints=*"))
	out, _ := cmd.CombinedOutput()
	const want = `kubeproxy_sync_proxy_rules_no_local_endpoints_total non-counter metrics should not have "_total" suffix`
	if got := strings.TrimSpace(string(out)); got != want {
		t.Errorf("promtool check metrics:\n%s\nwant\n%s", got, want)
	}
	for _, args := range [][]string{{"check", "rules", "--lint-fatal", alerts}, {"test", "rules", alertTests}} {
		if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

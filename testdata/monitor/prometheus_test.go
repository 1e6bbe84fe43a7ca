package monitor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

const (
	dashboard  = "../../packaging/grafana/svcproxy.json"
	alerts     = "../../packaging/prometheus/svcproxy.rules.yml"
	alertTests = "../../packaging/prometheus/svcproxy.rules.test.yml"
)

// TestPrometheus has a real Prometheus scrape a working svcproxy with every kind of source. Every query
// of the dashboards and alerts must return data. testdata/nan.txt lists the queries that may return
// NaN, with the reason.
func TestPrometheus(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("prometheus"))
	for _, source := range []struct {
		name string
		from func(*testing.T) (*node, func(times int))
	}{{"file", fromFile}, {"apiserver", fromAPIServer}} {
		t.Run(source.name, func(t *testing.T) {
			n, write := source.from(t)
			base := prometheus(t, n)
			some, none := split(t, source.name, append(upstreamQueries(t), ownQueries(t)...))
			times := 0
			awaitAnswers(t, base, some, func() { times++; write(times) })
			for _, q := range none {
				if data, numbers, err := answered(base, q); !data || numbers || err != nil {
					t.Errorf("%s: data %t, want some; numbers %t, want none, or testdata/nan.txt is wrong; %v", q, data, numbers, err)
				}
			}
			t.Logf("%d queries returned numbers, %d NaN; %d changes", len(some), len(none), times)
			wantAlertsEvaluated(t, base)
			wantMetricsOfAlerts(t, n)
		})
	}
}

// split tells the queries that have to return numbers with a source from those for which testdata/nan.txt
// gives the reason why not.
func split(t *testing.T, source string, queries []string) (some, none []string) {
	t.Helper()
	text, err := os.ReadFile("testdata/nan.txt")
	must(t, err)
	some = queries
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != source {
			continue
		}
		if len(words) < 3 {
			t.Fatalf("testdata/nan.txt: no reason in %s", line)
		}
		has := func(q string) bool { return strings.Contains(q, words[1]) }
		if !slices.ContainsFunc(some, has) {
			t.Errorf("testdata/nan.txt: no query has %s", words[1])
		}
		for _, q := range some {
			if has(q) {
				none = append(none, q)
			}
		}
		some = slices.DeleteFunc(some, has)
	}
	if len(some) < 40 {
		t.Fatalf("only %d queries found", len(some))
	}
	return some, none
}

// awaitAnswers waits until every query returns data. Something has to happen between two scrapes, or there
// is no rate of it: that is what change does.
func awaitAnswers(t *testing.T, base string, queries []string, change func()) {
	t.Helper()
	var missing []string
	t.Cleanup(func() {
		if len(missing) > 0 {
			t.Logf("no data for\n%s", strings.Join(missing, "\n"))
		}
	})
	await(t, "every query returns data", func() bool {
		change()
		missing = slices.DeleteFunc(slices.Clone(queries), func(q string) bool {
			_, numbers, err := answered(base, q)
			if err != nil {
				t.Fatalf("%s: %v", q, err)
			}
			return numbers
		})
		return len(missing) == 0
	})
}

// prometheus starts one that scrapes a node as the job kube-proxy, and gives its address when it has.
func prometheus(t *testing.T, n *node) string {
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
	ports, err := lab.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", ports[0])
	var said bytes.Buffer
	cmd := exec.Command("prometheus", "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr)
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
	await(t, "a first scrape", func() bool {
		_, ok, err := answered(base, "up == 1") // an error: it does not listen yet
		return ok && err == nil
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

// answered reports whether a query returns data, and whether there is a number in it.
func answered(base, query string) (data, numbers bool, err error) {
	var answer struct {
		Result []struct{ Value [2]any }
	}
	if err := ask(base+"/api/v1/query?query="+url.QueryEscape(query), &answer); err != nil {
		return false, false, err
	}
	for _, r := range answer.Result {
		text, _ := r.Value[1].(string)
		if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
			return true, true, nil
		}
	}
	return len(answer.Result) > 0, false, nil
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

// wantAlertsEvaluated: Prometheus accepts the rules. At the end the only alert may be about services without
// backends, which the table has.
func wantAlertsEvaluated(t *testing.T, base string) {
	t.Helper()
	type rule struct{ Name, Health, LastError, State string }
	var bad []rule
	t.Cleanup(func() {
		for _, r := range bad {
			t.Logf("alert %s: health %s %s, state %s", r.Name, r.Health, r.LastError, r.State)
		}
	})
	await(t, "all alerts evaluated and quiet", func() bool {
		var data struct{ Groups []struct{ Rules []rule } }
		must(t, ask(base+"/api/v1/rules", &data))
		if len(data.Groups) != 1 {
			return false
		}
		bad = slices.DeleteFunc(data.Groups[0].Rules, func(r rule) bool {
			return r.Health == "ok" && (r.State == "inactive" || r.Name == "SvcproxyServiceWithoutBackends")
		})
		return len(bad) == 0
	})
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
			if strings.HasPrefix(name, "svcproxy_vip_") {
				continue // with announce.mode only; testdata/metrics.txt of proxy/metrics has them
			}
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
	kerneltest.Need(t, kerneltest.Tool("promtool"))
	n := start(t, tableOf(shop()...))
	n.metrics.Request("200", "GET", "127.0.0.1:6443")
	n.metrics.Latency("GET", "127.0.0.1:6443", time.Millisecond)
	cmd := exec.Command("promtool", "check", "metrics")
	cmd.Stdin = strings.NewReader(scrape(t, n, "?endpoints=*"))
	out, _ := cmd.CombinedOutput()
	const want = `kubeproxy_sync_proxy_rules_no_local_endpoints_total non-counter metrics should not have "_total" suffix`
	if got := strings.TrimSpace(string(out)); got != want {
		t.Errorf("promtool check metrics:\n%s\nwant\n%s", got, want)
	}
	for _, args := range [][]string{{"check", "rules", "--lint-fatal", alerts}, {"test", "rules", alertTests}} {
		if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

package daemon

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/proxy/condition"
	"github.com/svcproxy/svcproxy/proxy/doctor"
	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/proxy/hooks"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// Socket, health, metrics, configz and events all show the same svcproxy.
func TestTheSameEverywhere(t *testing.T) {
	n := start(t)
	st, err := n.client.Status(t.Context(), true)
	if err != nil || len(st.Services) != 1 || st.Services[0].State != status.Serving || !st.Healthy || st.Daemon.Version != "1.2.3" {
		t.Errorf("%+v, %v", st, err)
	}
	if len(st.Warnings) != 1 || st.Warnings[0] != "a warning" {
		t.Error(st.Warnings)
	}
	healthz, site := n.console.listeners()
	if code, body := n.get(healthz, "/healthz"); code != http.StatusOK {
		t.Error(code, body)
	}
	for path, want := range map[string]string{
		"/proxyMode": "ipvs", "/metrics": `svcproxy_build_info{goversion=`, "/healthz": "ok",
		"/configz": `"SyncPeriod":"500ms"`,
	} {
		if code, body := n.get(site, path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d, no %q in %.200s", path, code, want, body)
		}
	}
	if code, _ := n.get(site, "/debug/pprof/"); code != http.StatusNotFound {
		t.Error("profiles without enableProfiling:", code)
	}
	_, text := n.get(site, "/configz")
	var configz map[string]map[string]any
	if err := json.Unmarshal([]byte(text), &configz); err != nil || configz["kubeproxy.config.k8s.io"]["BindAddress"] != "0.0.0.0" || configz["svcproxy"]["bindAddress"] != "0.0.0.0" {
		t.Error(text, err)
	}
	var kinds []events.Kind
	err = n.client.Events(t.Context(), 0, false, func(e events.Event) error {
		kinds = append(kinds, e.Kind)
		return nil
	})
	if err != nil || len(kinds) == 0 || kinds[0] != events.Started {
		t.Error(kinds, err)
	}
}

// /healthz names a service without backends in its body. The code stays 200.
func TestHealthNamesServicesWithoutBackends(t *testing.T) {
	n := start(t)
	healthz, _ := n.console.listeners()
	if code, body := n.get(healthz, "/healthz"); code != http.StatusOK || strings.Contains(body, "degraded") {
		t.Errorf("%d: %s", code, body)
	}
	n.write(mainFile + strings.Replace(web1, `[ "10.2.0.1" ]`, "[]", 1))
	if _, err := n.client.Reload(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if code, body := n.get(healthz, "/healthz"); code != http.StatusOK || !strings.Contains(body, `"degraded":["1 service without backends: web"]`) {
		t.Errorf("%d: %s", code, body)
	}
}

// A node that starts with a broken file serves the last good content, and /healthz names
// the file.
func TestHealthNamesStaleFiles(t *testing.T) {
	n := start(t)
	n.console.current.Keep()
	n.write(mainFile + "frob = 1\n" + web1)
	again := restart(t, n.dir)
	healthz, _ := again.console.listeners()
	if code, body := again.get(healthz, "/healthz"); code != http.StatusOK || !strings.Contains(body, `"stale":["`+filepath.Join(n.dir, "svcproxy.toml")) {
		t.Errorf("%d: %s", code, body)
	}
	healthz, _ = n.console.listeners()
	if code, body := n.get(healthz, "/healthz"); code != http.StatusOK || strings.Contains(body, "stale") {
		t.Errorf("nothing is stale: %d: %s", code, body)
	}
}

// If the loop hangs, /healthz fails within two sync periods. It recovers with the loop.
func TestHealthOfALoopThatHangs(t *testing.T) {
	n := start(t)
	healthz, _ := n.console.listeners()
	await := func(want int, limit time.Duration) {
		t.Helper()
		for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
			code, body := n.get(healthz, "/healthz")
			if code == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%d after %v: %s", code, limit, body)
			}
		}
	}
	n.stuck.Lock()
	await(http.StatusServiceUnavailable, 10*time.Second)
	n.stuck.Unlock()
	await(http.StatusOK, 10*time.Second)
}

// With bindAddressHardFail an address in use is an error.
func TestAnAddressThatIsTaken(t *testing.T) {
	n := start(t)
	healthz, _ := n.console.listeners()
	c := n.console.current.Now().Config
	c.HealthzBindAddress = netip.MustParseAddrPort("127.0.0.1:0") // as before
	c.MetricsBindAddress, c.BindAddressHardFail = healthz, true
	if err := n.console.configure(c); err == nil || !strings.Contains(err.Error(), "metrics") {
		t.Error(err)
	}
	if _, now := n.console.listeners(); !now.IsValid() || now == healthz {
		t.Error("the listener did not stay:", now)
	}
}

// What was not told yet is told when svcproxy stops, before the process ends.
func TestStopTellsTheLastEvents(t *testing.T) {
	told := make(chan string, 9)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m hooks.Message
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		if strings.HasPrefix(m.Text, "allDown") {
			time.Sleep(100 * time.Millisecond) // a slow server: the stop waits for it
		}
		told <- m.Text
	}))
	defer server.Close()
	t.Run("node", func(t *testing.T) {
		dir := t.TempDir()
		first := &node{T: t, dir: dir}
		first.write(mainFile + "notify.webhook = \"" + server.URL + "\"\nnotify.minInterval = \"1h\"\n" + web1)
		n := restart(t, dir)
		if text := <-told; !strings.HasPrefix(text, "started: ") {
			t.Error(text)
		}
		n.console.ring.Add(events.Event{Kind: events.AllDown, Text: "all of web"})
	}) // its cleanup stops svcproxy
	select {
	case text := <-told:
		if text != "allDown: all of web" {
			t.Error(text)
		}
	default:
		t.Error("nothing more was told")
	}
}

// listeners are the addresses of the healthz and the metrics listener; zero if it does
// not listen.
func (c *console) listeners() (healthz, metrics netip.AddrPort) {
	return c.healthz.Addr(), c.site.Addr()
}

// A condition is said everywhere while it stands, and no longer when it has ended.
func TestConditionIsSaidEverywhere(t *testing.T) {
	n := start(t)
	healthz, site := n.console.listeners()
	const line = "overrides.json: no space left on device"
	n.console.conditions.Set(condition.Unkept, "overrides.json", "no space left on device\n", "")
	st, err := n.client.Status(t.Context(), false)
	if err != nil || len(st.Conditions) != 1 || len(st.Problems) != 1 || !strings.HasPrefix(st.Problems[0], line+" (since ") ||
		st.Verdict("") != status.Degraded || !slices.Contains(st.Summary().Wrong, condition.Unkept.Meaning()) {
		t.Errorf("%+v, %q, %v, %q, %v", st.Conditions, st.Problems, st.Verdict(""), st.Summary().Wrong, err)
	}
	found := doctor.Examine(&doctor.Facts{Status: &st}).Findings
	if i := slices.IndexFunc(found, func(f doctor.Finding) bool { return f.Text == line }); i < 0 || found[i].Mend != st.Conditions[0].Hint {
		t.Errorf("doctor: %+v", found)
	}
	if code, body := n.get(healthz, "/healthz"); code != http.StatusOK || !strings.Contains(body, line) {
		t.Error(code, body)
	}
	if _, body := n.get(site, "/metrics"); !strings.Contains(body, `svcproxy_condition{kind="unkept"} 1`) {
		t.Error("no svcproxy_condition")
	}
	if text := n.console.notify.status(); !strings.Contains(text, line) {
		t.Error(text)
	}
	n.console.conditions.Set(condition.Unkept, "overrides.json", "", "")
	if st, err = n.client.Status(t.Context(), false); err != nil || st.Conditions != nil || len(st.Problems) > 0 {
		t.Errorf("%+v, %v", st, err)
	}
	if _, body := n.get(site, "/metrics"); !strings.Contains(body, `svcproxy_condition{kind="unkept"} 0`) {
		t.Error("no svcproxy_condition at 0")
	}
	var kinds []events.Kind
	err = n.client.Events(t.Context(), 0, false, func(e events.Event) error {
		if e.Kind == events.Condition || e.Kind == events.ConditionOver {
			kinds = append(kinds, e.Kind)
			if !strings.Contains(e.Text, line) {
				t.Error(e.Text)
			}
		}
		return nil
	})
	if err != nil || !slices.Equal(kinds, []events.Kind{events.Condition, events.ConditionOver}) {
		t.Error(kinds, err)
	}
}

// Everything says that a preferred mode cannot be used; health checks still pass, since the node serves.
func TestFallbackIsSaidEverywhere(t *testing.T) {
	const line = "mode iptables instead of ipvs: this kernel has no IPVS (modprobe ip_vs)"
	n := startAs(t, status.Daemon{Mode: "iptables", Fallbacks: []status.Fallback{{Mode: "ipvs", Reason: "this kernel has no IPVS", Hint: "modprobe ip_vs"}}})
	healthz, site := n.console.listeners()
	if code, body := n.get(healthz, "/healthz"); code != http.StatusOK || !strings.Contains(body, line) {
		t.Error(code, body)
	}
	if _, body := n.get(site, "/proxyMode"); body != "iptables" {
		t.Error(body)
	}
	if _, body := n.get(site, "/metrics"); !strings.Contains(body, `svcproxy_mode_info{configured="",mode="iptables",reason="ipvs: this kernel has no IPVS"} 1`) {
		t.Error("no svcproxy_mode_info")
	}
	st, err := n.client.Status(t.Context(), false)
	if err != nil || len(st.Problems) != 1 || !strings.HasPrefix(st.Problems[0], line) ||
		st.Verdict("") != status.Degraded {
		t.Errorf("%q, %v, %v", st.Problems, st.Verdict(""), err)
	}
	if text := n.console.notify.status(); !strings.Contains(text, line) {
		t.Error(text)
	}
	var first events.Event
	err = n.client.Events(t.Context(), 0, false, func(e events.Event) error {
		if first.Seq == 0 {
			first = e
		}
		return nil
	})
	if err != nil || first.Kind != events.ModeFallback || first.Text != line {
		t.Error(first, err)
	}
}

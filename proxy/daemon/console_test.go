package daemon

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/proxy/events"
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
	if code, body := n.get(healthz, "/healthz"); code != http.StatusOK || !strings.Contains(body, `"degraded":["1 service without backends: default/web"]`) {
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

// listeners are the addresses of the healthz and the metrics listener; zero if it does
// not listen.
func (c *console) listeners() (healthz, metrics netip.AddrPort) {
	return c.healthz.Addr(), c.site.Addr()
}

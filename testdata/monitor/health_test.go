package monitor

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/web"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// code asks a listener and gives the code of its answer; 0 if there is none.
func code(addr netip.AddrPort, path string) int {
	resp, err := http.Get("http://" + addr.String() + path)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// TestHealthWhenSyncsHang: while a sync hangs, all health endpoints answer 503 as soon as a change has
// waited for twice the sync period, and 200 after the sync has ended.
func TestHealthWhenSyncsHang(t *testing.T) {
	n := start(t, tableOf(shop()...))
	const period = 500 * time.Millisecond
	n.proxy.SetPeriods(period, 0)
	ports := &web.HealthPorts{Healthy: n.proxy.Healthy, Log: slog.New(slog.DiscardHandler)}
	defer ports.Close()
	free, err := lab.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	port := netip.MustParseAddrPort(fmt.Sprintf("127.0.0.1:%d", free[0]))
	ports.Set([]frontend.HealthCheck{{Namespace: "default", Name: "web", Port: port.Port(), LocalEndpoints: 1}})

	all := func(want int) bool {
		return code(n.health, "/healthz") == want && code(n.health, "/livez") == want && code(port, "/") == want
	}
	await(t, "a healthy start", func() bool { return all(200) })

	n.hang.Store(true)
	begin := time.Now()
	n.table.Set(tableOf(service(0, "web", 1)), nil)
	await(t, "503 while the sync hangs", func() bool { return all(503) })
	if took := time.Since(begin); took < 2*period {
		t.Errorf("unhealthy after %v, which is less than twice the sync period", took)
	}
	var said struct {
		Healthy      bool
		NodeEligible bool
		Status       map[string]struct{ Healthy bool }
	}
	resp, err := http.Get("http://" + n.health.String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&said); err != nil || said.Healthy || !said.NodeEligible || len(said.Status) != 2 || said.Status["IPv4"].Healthy {
		t.Errorf("said %+v, %v", said, err)
	}

	n.hang.Store(false)
	await(t, "200 when the sync has ended", func() bool { return all(200) })

	// A local endpoint less is no matter of the proxy's health.
	ports.Set([]frontend.HealthCheck{{Namespace: "default", Name: "web", Port: port.Port()}})
	if code(port, "/") != 503 || code(n.health, "/healthz") != 200 {
		t.Errorf("without local endpoints the port says %d, /healthz %d", code(port, "/"), code(n.health, "/healthz"))
	}
}

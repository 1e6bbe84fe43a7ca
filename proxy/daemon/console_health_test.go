package daemon

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/status"
	"github.com/svcproxy/svcproxy/sources"
)

// An endpoint that is down is seen everywhere: status and its exit code, events, /healthz, metrics, systemd's text.
func TestHealthIsSeenEverywhere(t *testing.T) {
	own := ownAddress(t)
	l, err := net.Listen("tcp", net.JoinHostPort(own, "0"))
	if err != nil {
		t.Fatal(err)
	}
	n := &node{T: t, dir: t.TempDir()}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	n.write(mainFile + strings.NewReplacer("port = 80", "port = 80, targetPort = "+port, "10.2.0.1", own).Replace(web1) +
		"[services.web.healthCheck]\ntype = \"tcp\"\ninterval = \"50ms\"\ntimeout = \"500ms\"\n")
	n = restart(t, n.dir)
	state := func() (status.Service, status.Verdict) {
		st, err := n.client.Status(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		return st.Services[0], st.Verdict("")
	}
	await := func(what string, holds func() bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("not within 20 s: %s", what)
			}
		}
	}
	await("up", func() bool { s, _ := state(); return s.Health != nil && s.Health.Up == 1 })
	healthz, site := n.console.listeners()
	if code, body := n.get(healthz, "/healthz"); code != http.StatusOK || strings.Contains(body, "degraded") {
		t.Errorf("%d: %s", code, body)
	}
	l.Close()
	await("panic", func() bool { s, _ := state(); return s.State == status.Panic })
	s, verdict := state()
	e := s.Endpoints[0].Health
	if verdict != status.Degraded ||
		e.State != "down" || e.Cause != "spared" || e.Reason != "refused" || !strings.HasPrefix(e.Text, "down ") {
		t.Errorf("%v %+v", verdict, e)
	}
	const line = "1 service in panic, first web (0 of 1 up)"
	if code, body := n.get(healthz, "/healthz"); code != http.StatusOK || !strings.Contains(body, line) {
		t.Errorf("%d: %s", code, body)
	}
	if text := n.console.notify.status(); !strings.Contains(text, line) {
		t.Error(text)
	}
	await("the metrics", func() bool {
		_, text := n.get(site, "/metrics")
		return strings.Contains(text, "svcproxy_health_panic{name=\"web\",service=\"web\"} 1") && strings.Contains(text, "svcproxy_health_changes_total{to=\"down\"} 1")
	})
	await("the events", func() bool {
		var kinds []events.Kind
		err := n.client.Events(t.Context(), 0, false, func(e events.Event) error {
			kinds = append(kinds, e.Kind)
			return nil
		})
		return err == nil && slices.Contains(kinds, events.EndpointDown) && slices.Contains(kinds, events.Panic)
	})
}

// ownAddress is an IPv4 address of this machine that files accept for an endpoint.
func ownAddress(t *testing.T) string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() {
			return p.Addr().String()
		}
	}
	t.Skip("this machine has loopback addresses only, which no file may have as endpoints")
	return ""
}

func TestHealthLines(t *testing.T) {
	group := func(service int, m health.Mode) health.Unusual {
		return health.Unusual{Service: service, Group: health.Group{Mode: m, Up: 1, Of: 4}}
	}
	table := sources.Table{Services: sources.ServicesOf(sources.Service{Namespace: "default", Name: "a"}, sources.Service{Namespace: "default", Name: "b"}, sources.Service{Namespace: "default", Name: "c"})}
	v := health.View{
		Table: table, Blind: "too many open files", Holding: time.Date(2026, 3, 1, 9, 31, 2, 0, time.UTC),
		Unusual: []health.Unusual{group(0, health.OnBackups), group(1, health.BelowLimit), group(1, health.FailOpen), group(2, health.FailOpen)},
	}
	want := []string{
		"health checks tell nothing: too many open files", "more than half of all targets went down at once: the last states count until 09:31:02",
		"2 services in panic, first b (1 of 4 up)",
	}
	if got := healthLines(v); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := healthLines(health.View{Table: table}); len(got) > 0 {
		t.Errorf("nothing is wrong: %q", got)
	}
}

package metrics

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/status"
	"github.com/svcproxy/svcproxy/sources"
)

func TestHealthIsExported(t *testing.T) {
	m := at(shop())
	m.Probed(sources.CheckHTTP, "ok", false, 3*time.Millisecond)
	m.Probed(sources.CheckHTTP, "status", false, time.Millisecond)
	m.Probed(sources.CheckHTTP, "void", true, time.Second)
	m.Noticed([]health.Event{{Kind: health.WentUp}, {Kind: health.WentUp, Run: 2}, {Kind: health.WentDown, Run: 3}, {Kind: health.IsHeld, Run: 3}, {Kind: health.IsHeld}, {Kind: health.IsReleased}})
	lines := scrape(t, m, "")
	wantLines(t, lines,
		`svcproxy_health_targets{state="up"} 2`, `svcproxy_health_targets{state="down"} 1`, `svcproxy_health_targets{state="unknown"} 0`,
		`svcproxy_health_changes_total{to="up"} 1`, `svcproxy_health_changes_total{to="down"} 2`,
		`svcproxy_health_blind 1`, `svcproxy_health_mass_failure_held 0`, `svcproxy_health_exec_waiting 3`,
		`svcproxy_health_overrides{verb="drain"} 2`, `svcproxy_health_overrides{verb="weight"} 1`, `svcproxy_health_overrides{verb="disable"} 0`,
		`svcproxy_health_panic{name="default/web",service="default/web"} 1`,
		`svcproxy_health_service_endpoints{name="default/web",service="default/web",state="up"} 1`, `svcproxy_health_service_endpoints{name="default/web",service="default/web",state="down"} 1`,
		`svcproxy_health_up{endpoint="10.2.0.1:8080",name="default/web",port="http",protocol="tcp",service="default/web"} 1`,
		`svcproxy_health_up{endpoint="10.2.0.2:8080",name="default/web",port="http",protocol="tcp",service="default/web"} 0`,
		`svcproxy_health_certificate_expiry_timestamp_seconds{endpoint="10.2.0.1:8080",name="default/web",port="http",protocol="tcp",service="default/web"} 1.7000036e+09`,
		`svcproxy_health_service_certificate_expiry_timestamp_seconds{name="default/web",service="default/web"} 1.7000036e+09`,
		`svcproxy_health_probes_total{result="ok",type="http"} 1`, `svcproxy_health_probes_total{result="status",type="http"} 1`,
		`svcproxy_health_probes_total{result="void",type="http"} 1`, `svcproxy_health_probes_total{result="timeout",type="http"} 0`,
		`svcproxy_health_probe_duration_seconds_count{type="http"} 2`, `svcproxy_health_probe_duration_seconds_bucket{type="http",le="0.002"} 1`,
		`svcproxy_health_late_seconds_bucket{le="0.005"} 1`, `svcproxy_health_late_seconds_bucket{le="0.05"} 3`, `svcproxy_health_late_seconds_bucket{le="10"} 3`,
		`svcproxy_health_late_seconds_bucket{le="+Inf"} 4`, `svcproxy_health_late_seconds_sum 12.06`, `svcproxy_health_late_seconds_count 4`)
	for _, line := range lines {
		if strings.Contains(line, `type="tcp"`) || strings.Contains(line, `name="default/db"`) && strings.HasPrefix(line, "svcproxy_health") {
			t.Errorf("there is %s, which nothing checks", line)
		}
	}
}

// Without health checks there are no series of them.
func TestNoHealthNoSeries(t *testing.T) {
	s := shop()
	s.Health = nil
	for i := range s.Services {
		s.Services[i].Health = nil
	}
	for _, line := range scrape(t, at(s), "?endpoints=*") {
		if strings.HasPrefix(line, "svcproxy_health_") {
			t.Errorf("there is %s", line)
		}
	}
}

// If there are too many checked endpoints, they have series on request only. The service still has the expiry that is
// alerted on, which is the earliest of its endpoints.
func TestHealthOfManyEndpoints(t *testing.T) {
	s := status.Status{Health: &status.Health{}}
	for i := range 2 {
		svc := status.Service{Name: fmt.Sprintf("default/s%d", i), State: status.Serving, Health: &status.ServiceHealth{Checked: 501, Up: 501}}
		for j := range 501 {
			addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i), byte(j >> 8), byte(j)}), 80)
			expires := time.Unix(1700000000+int64((j+250)%501), 0) // the first and the last are not the earliest
			svc.Endpoints = append(svc.Endpoints, status.Endpoint{Address: addr, Health: &status.EndpointHealth{State: "up", Expires: expires}})
		}
		s.Services = append(s.Services, svc)
	}
	for query, want := range map[string]int{"": 0, "?endpoints=default/s1": 501, "?endpoints=*": 1002} {
		lines := scrape(t, at(s), query)
		if got := strings.Count(strings.Join(lines, "\n"), "\nsvcproxy_health_up{"); got != want {
			t.Errorf("query %q: %d endpoints, want %d", query, got, want)
		}
		wantLines(t, lines, `svcproxy_health_service_endpoints{name="default/s1",service="default/s1",state="up"} 501`,
			`svcproxy_health_service_certificate_expiry_timestamp_seconds{name="default/s0",service="default/s0"} 1.7e+09`,
			`svcproxy_health_service_certificate_expiry_timestamp_seconds{name="default/s1",service="default/s1"} 1.7e+09`)
	}
}

// A service after the last endpoint that has series still has its own.
func TestHealthOfServicesAfterTheLastEndpoint(t *testing.T) {
	s := status.Status{Health: &status.Health{}}
	for _, name := range []string{"default/large", "default/web"} {
		s.Services = append(s.Services, status.Service{Name: name, State: status.Serving, Health: &status.ServiceHealth{Checked: 1, Up: 1}})
	}
	for i := range MaxEndpoints + 1 {
		addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 80)
		s.Services[0].Endpoints = append(s.Services[0].Endpoints, status.Endpoint{Address: addr, Health: &status.EndpointHealth{State: "up"}})
	}
	wantLines(t, scrape(t, at(s), "?endpoints=*"), `svcproxy_health_service_endpoints{name="default/web",service="default/web",state="up"} 1`)
}

// Results come from many goroutines, and often.
func TestProbedDoesNotAllocate(t *testing.T) {
	m := at(status.Status{})
	if n := testing.AllocsPerRun(100, func() { m.Probed(sources.CheckTCP, "ok", false, time.Millisecond) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkProbed(b *testing.B) {
	m := at(status.Status{})
	b.RunParallel(func(b *testing.PB) {
		for b.Next() {
			m.Probed(sources.CheckTCP, "ok", false, time.Millisecond)
		}
	})
}

// Certificates without an end have the year 9999, which nanoseconds since 1970 do not reach.
func TestSecondsOfTheYear9999(t *testing.T) {
	if got := seconds(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)); got != 253402300799 {
		t.Errorf("%f, want 253402300799", got)
	}
}

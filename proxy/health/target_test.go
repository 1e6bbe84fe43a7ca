package health

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// TestTargets: one for each probe and address, however many services share it, and never one for an endpoint that is
// not checked or cannot be.
func TestTargets(t *testing.T) {
	table := readTable(t, `
service api check=tcp
port http TCP 80
port admin TCP 81
endpoint 10.2.0.1 http=8080 admin=8081
endpoint 10.2.0.2 http=8080 unchecked
endpoint 10.2.0.3 http=8080 weight=0 notready backup
service dns check=tcp
port udp UDP 53
port tcp TCP 53
port other UDP 54
endpoint 10.2.0.1 udp=53 tcp=53 other=54
service named check=http:/healthz checkPort=admin
port http TCP 80
port admin TCP 81
endpoint 10.2.0.1 http=8080 admin=8081
endpoint 10.2.0.2 http=8080
service ping check=ping
port http TCP 80
port admin TCP 81
endpoint fd00::1 http=8080 admin=8081
service run1 check=exec
port http TCP 80
endpoint 10.2.0.1 http=8080
service run2 check=exec
port http TCP 80
endpoint 10.2.0.1 http=8080
service udp check=udp
port udp UDP 53
endpoint 10.2.0.1 udp=53
service web check=tcp fall=2
port http TCP 80
endpoint 10.2.0.1 http=8080
service none
port http TCP 80
endpoint 10.2.0.1 http=8080
`)
	var got strings.Builder
	for _, x := range Targets(table) {
		fmt.Fprintf(&got, "%s%s:", x.Key, map[bool]string{true: " mixed"}[x.Mixed])
		for _, u := range x.Users {
			s := table.Services.At(int(u.Service))
			e := &s.Endpoints[u.Endpoint]
			fmt.Fprintf(&got, " %s/%s/%s", s.Name, e.Addr, e.Ports[u.Port].Name)
		}
		got.WriteByte('\n')
	}
	want := `tcp 10.2.0.1:8080 mixed: api/10.2.0.1/http web/10.2.0.1/http
tcp 10.2.0.1:8081: api/10.2.0.1/admin
tcp 10.2.0.3:8080: api/10.2.0.3/http
tcp 10.2.0.1:53: dns/10.2.0.1/udp dns/10.2.0.1/tcp dns/10.2.0.1/other
http 10.2.0.1:8081: named/10.2.0.1/http named/10.2.0.1/admin
ping fd00::1: ping/fd00::1/http ping/fd00::1/admin
exec 10.2.0.1:8080: run1/10.2.0.1/http
exec 10.2.0.1:8080: run2/10.2.0.1/http
udp 10.2.0.1:53: udp/10.2.0.1/udp
`
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
	if p := Targets(table)[0].Pace; p.Fall != 2 {
		t.Errorf("a shared target falls after %d, want 2", p.Fall)
	}
}

// TestSharedPace: the most frequent one counts, whichever service comes first.
func TestSharedPace(t *testing.T) {
	slow, quick := standard(), standard()
	slow.Probe.Type, quick.Probe.Type = sources.CheckTCP, sources.CheckTCP
	slow.Interval, slow.Fall, quick.Interval = 5*time.Second, 2, time.Second
	for _, checks := range [][2]*sources.HealthCheck{{&slow, &quick}, {&quick, &slow}} {
		table := sized(2, 1, nil)
		for i := range table.Services.Len() {
			table.Services.At(i).HealthCheck = checks[i]
			table.Services.At(i).Endpoints[0].Addr = table.Services.At(0).Endpoints[0].Addr
		}
		got := Targets(table)
		if len(got) != 1 || !got[0].Mixed || got[0].Pace != PaceOf(&quick) {
			t.Errorf("%+v", got)
		}
	}
}

// TestNoPort: an endpoint without the port that its probe needs is not checked, and serves.
func TestNoPort(t *testing.T) {
	table := readTable(t, "service web check=tcp checkPort=admin\nport http TCP 80\nendpoint 10.2.0.1 http=8080\n")
	if got := Targets(table); len(got) != 0 {
		t.Errorf("targets %v", got)
	}
	if got := NewExplainer(Known{}, epoch).Explain(table.Services.At(0))[0].Text(epoch); got != "not checked" {
		t.Error(got)
	}
}

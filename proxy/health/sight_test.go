package health

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestDarkByReason: targets that tell nothing are counted by type and reason, and the first one is that of the least address.
func TestDarkByReason(t *testing.T) {
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, "service s%02d check=tcp timeout=%dms\nport http TCP 80\nendpoint 10.2.0.%d http=8080\nendpoint 10.2.1.1 http=8080\n", i, 100+i, 200-i)
	}
	table := readTable(t, text.String())
	b, now := new(Board), time.Unix(1000, 0)
	b.SetTargets(Targets(table), nil, now)
	for k, x := range b.targets {
		x.VoidRun, x.VoidSince, x.Voided = blindLeast, now.Add(-blindAfter), "no memory"
		if k.Addr.Addr().String() == "10.2.0.150" {
			x.Voided = "no route"
		}
		b.see(k, x)
	}
	for range 10 {
		got := map[string]string{}
		for _, d := range b.Dark(now) {
			got[d.Reason] = fmt.Sprintf("%s %v %d targets, %d services, first %s", d.Type, b.ServicesOf(table, d.First), d.Targets, d.Services, d.First.Addr)
		}
		want := map[string]string{
			"no memory": "tcp [s99] 199 targets, 100 services, first 10.2.0.101:8080",
			"no route":  "tcp [s50] 1 targets, 1 services, first 10.2.0.150:8080",
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
	}
}

package checker

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/sources"
)

// TestDarkSubject: a condition stands while more services become dark. Its hint names an endpoint of the service that it names.
func TestDarkSubject(t *testing.T) {
	now := time.Unix(1000, 0)
	dark := func(reason string, targets, services int, first, service string) darkCheck {
		return darkCheck{health.Dark{
			Type: sources.CheckTCP, Reason: reason, First: health.Key{Addr: netip.MustParseAddrPort(first)}, Targets: targets, Services: services, Last: now.Add(-5 * time.Second),
		}, []string{service}}
	}
	for _, c := range []struct {
		dark darkCheck
		want string
	}{
		{
			dark("void: no memory", 1, 1, "10.2.0.9:80", "web"),
			"tcp checks: no memory: web, 10.2.0.9:80; the last result is 5s old [svcproxy health probe web/10.2.0.9]",
		},
		{
			dark("void: no memory", 4, 3, "10.2.0.1:80", "api"),
			"tcp checks: no memory: api and 2 more services, 10.2.0.1:80 and 3 more endpoints; the last result is 5s old [svcproxy health probe api/10.2.0.1]",
		},
	} {
		list := darkConditions([]darkCheck{dark("void: no route", 1, 1, "10.2.0.7:80", "dns"), c.dark}, now)
		if len(list) != 2 || list[1].Subject != "tcp checks: no route" {
			t.Fatalf("%v", list)
		}
		if got := fmt.Sprintf("%s [%s]", list[0], list[0].Hint); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

package monitor

import (
	"errors"
	"flag"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// screenshots are to be looked at by a person: go test -run TestPage -screenshots DIR. light.png is the README's
// picture, packaging/docs/status-page.png.
var screenshots = flag.String("screenshots", "", "folder to write screenshots of the status page to")

// shop is a table with a little of everything.
func shop() []sources.Service {
	drained, empty, balanced := service(0, "web", 3), service(1, "mail", 0), service(2, "shop-frontend", 4)
	balanced.Type, balanced.ExternalTrafficPolicy = sources.LoadBalancer, sources.Local
	balanced.LoadBalancerIPs = []sources.VIP{{Addr: service(90, "", 0).ClusterIPs[0]}}
	balanced.Ports[0].NodePort = 30080
	balanced.Endpoints[0].NodeName = "lb1"
	local := service(3, "metrics-agent", 2)
	local.InternalTrafficPolicy = sources.Local
	return []sources.Service{drained, empty, balanced, local, service(4, "db", 2), service(5, "cache", 6), service(6, "queue", 1)}
}

// TestPage opens the status page of a running svcproxy, changes what is served, and uses the page by
// keyboard. Nothing may be reported to the console meanwhile.
func TestPage(t *testing.T) {
	n := start(t, tableOf(shop()...))
	b := open(t, "http://"+n.site.String()+"/")
	b.look(1280, 900, "light")
	b.awaitText("svcproxy lb1", "web", "shop-frontend", "10.96.0.1:80", "no endpoints", "Sources", "static", "started")
	if size := b.bytes(); size > 100<<10 {
		t.Errorf("the page took %.0f bytes to load, want at most 100 KB", size)
	}
	await(t, "rates", func() bool { return b.eval(`document.querySelectorAll("td.chart path").length > 0`) == "true" })

	// A service changes: it is shown, and so are the drain and the event.
	n.connect(service(0, "web", 3), 12)
	services := shop()
	services[0].Endpoints = services[0].Endpoints[1:]
	services = append(services, service(7, "newcomer", 1))
	n.table.Set(tableOf(services...), nil)
	b.awaitText("newcomer", "1 draining", "Draining", "10.2.0.1:8080")

	// By keyboard: search, go to the row, open it, close it.
	b.press("/", "s", "h", "o", "p")
	await(t, "the search", func() bool { return b.eval(`document.querySelectorAll("tr.service").length`) == "1" })
	b.press("Escape")
	await(t, "the end of the search", func() bool { return b.eval(`document.querySelectorAll("tr.service").length`) == "8" })
	b.openRow("db")
	b.awaitText("Endpoints")
	await(t, "details", func() bool {
		return strings.Contains(b.eval(`document.querySelector("tr.detail").innerText`), "10.3.0.5:8080")
	})
	await(t, "rates of backends", func() bool {
		return b.eval(`document.querySelectorAll("tr.detail td.chart path").length > 0`) == "true"
	})
	looks(t, b)
	b.press("Enter")
	await(t, "no details", func() bool { return b.eval(`document.querySelectorAll("tr.detail").length`) == "0" })

	// What is wrong is on top of the page.
	n.table.Set(tableOf(services...), errors.New("services.toml:7: no such thing"))
	b.awaitText("services.toml:7: no such thing")
	await(t, "red, with the reason in the title", func() bool {
		return b.eval(`document.getElementById("health").className`) == "badge bad" && strings.Contains(b.eval(`document.title`), "✖ ")
	})
	shot(b, "trouble")

	if said := b.complaints(); len(said) > 0 {
		t.Errorf("the browser reports %s", strings.Join(said, "\n"))
	}
}

// TestPageOfHealth: the page shows which endpoints are up, and why one is not, once a service has a health check.
func TestPageOfHealth(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	at := netip.MustParseAddrPort(l.Addr().String())
	check := sources.DefaultHealthCheck()
	check.Probe.Type, check.Interval = sources.CheckTCP, 200*time.Millisecond
	s := service(0, "web", 2)
	s.HealthCheck, s.Ports[0].TargetPort = &check, at.Port()
	for i := range s.Endpoints { // nothing listens at the second one
		s.Endpoints[i].Addr, s.Endpoints[i].Ports[0].Port = netip.AddrFrom4([4]byte{127, 0, 0, byte(1 + i)}), at.Port()
	}
	n := start(t, tableOf(service(1, "unchecked", 1)))
	b := open(t, "http://"+n.site.String()+"/")
	b.look(1280, 900, "light")
	b.awaitText("unchecked")
	column := func() string {
		return b.eval(`[...document.querySelectorAll("tr.detail th")].some((head) => head.textContent === "Health")`)
	}
	b.openRow("unchecked")
	b.awaitText("Endpoints")
	if got := column(); got != "false" {
		t.Errorf("without health checks there is a column of health: %s", got)
	}
	b.press("Enter")
	n.table.Set(tableOf(s, service(1, "unchecked", 1)), nil)
	b.awaitText("1 of 2 down", "1 of 2 targets up", "endpointDown", "down: web 127.0.0.2:", ": refused (since ")
	b.openRow("web")
	b.awaitText("down ", "0 (source 1)")
	if got := b.eval(`document.querySelectorAll("tr.detail .state.bad").length > 0`); column() != "true" || got != "true" {
		t.Errorf("column of health: %s, the endpoint is red: %s", column(), got)
	}
	must(t, n.order("127.0.0.2", "kernel upgrade"))
	b.awaitText("Ordered by the operator", "drained by root", "kernel upgrade")
	if *screenshots != "" {
		shot(b, "health")
		b.look(390, 1400, "dark")
		shot(b, "health-phone")
	}
	if said := b.complaints(); len(said) > 0 {
		t.Errorf("the browser reports %s", strings.Join(said, "\n"))
	}
}

// TestPageWhileAway: the page says that svcproxy does not answer, keeps what it knew, and goes on by itself.
func TestPageWhileAway(t *testing.T) {
	n := start(t, tableOf(shop()...))
	b := open(t, "http://"+n.site.String()+"/")
	b.awaitText("shop-frontend")
	listen := func(addr netip.AddrPort) {
		if err := n.listener.Listen(addr, true); err != nil {
			t.Fatal(err)
		}
	}
	listen(netip.AddrPort{})
	b.awaitText("svcproxy does not answer", "shop-frontend")
	listen(n.site)
	await(t, "the page goes on", func() bool { return !strings.Contains(b.text(), "does not answer") })
	b.eval(`document.getElementById("tiles").remove() || ""`)
	b.awaitText("this page has a fault", "svcproxy answers")
	if strings.Contains(b.text(), "does not answer") {
		t.Error("a fault of the page is shown as one of svcproxy")
	}
}

// looks takes pictures in both colour schemes and at a phone's width, once the charts have something to show.
func looks(t *testing.T, b *browser) {
	if *screenshots == "" {
		return
	}
	end := time.Now().Add(30 * time.Second)
	await(t, "half a minute of charts", func() bool { return time.Now().After(end) })
	for name, look := range map[string]struct {
		width, height int
		scheme        string
	}{"light": {1280, 960, "light"}, "dark": {1280, 960, "dark"}, "phone": {390, 2600, "light"}, "phone-dark": {390, 2600, "dark"}} {
		b.look(look.width, look.height, look.scheme)
		shot(b, name)
	}
	b.look(1280, 900, "light")
}

func shot(b *browser, name string) {
	if *screenshots != "" {
		b.screenshot(filepath.Join(*screenshots, name+".png"))
	}
}

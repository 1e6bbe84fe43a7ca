package web

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/svcproxy/svcproxy/proxy/events"
)

// A web page whose name leads here (DNS rebinding) can read nothing.
func TestOtherNamesAreRefused(t *testing.T) {
	list := []string{"lb.example.com", ".lan"}
	h := Site{
		Metrics: http.NotFoundHandler(), Mode: func() string { return "ipvs" }, Config: func() any { return 1 },
		Profiling: func() bool { return true }, Events: new(events.Ring),
		Allowed: Hosts([]string{"Node1"}, func() []string { return list }),
	}.Handler()
	code := func(host, path string) int {
		r := httptest.NewRequest("GET", path, nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	for _, host := range []string{
		"localhost", "localhost:10249", "LOCALHOST.", "127.0.0.1:10249", "192.0.2.1", "[::1]:10249", "[fe80::1%25eth0]:1", "::1",
		"node1", "node1:10249", "lb.example.com", "a.lan", "a.b.LAN:1", "",
	} {
		if got := code(host, "/configz"); got != http.StatusOK {
			t.Errorf("%q: %d", host, got)
		}
	}
	for _, host := range []string{"evil.example", "node1.evil.example", "evil.example:10249", "lan", "evillan", "1.2.3.4.evil.example", "x.lb.example.com", "127.1.evil"} {
		for _, path := range []string{"/", "/configz", "/metrics", "/proxyMode", "/status.json", "/debug/pprof/heap", "//configz", "/healthz/../configz"} {
			if got := code(host, path); got != http.StatusMisdirectedRequest && got != http.StatusMovedPermanently && got != http.StatusTemporaryRedirect {
				t.Errorf("%q %s: %d", host, path, got)
			}
		}
		if got := code(host, "/healthz"); got != http.StatusOK {
			t.Errorf("a probe under %q: %d", host, got)
		}
	}
	list = []string{"*"}
	if got := code("any.example", "/configz"); got != http.StatusOK {
		t.Errorf("with *: %d", got)
	}
}

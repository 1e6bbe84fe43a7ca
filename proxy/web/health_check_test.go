package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// The answer is byte for byte kube-proxy's.
func TestHealthCheckAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		endpoints int
		healthy   bool
		code      int
		body      string
	}{
		"serving": {2, true, http.StatusOK, `{
	"service": {
		"namespace": "default",
		"name": "web"
	},
	"localEndpoints": 2,
	"serviceProxyHealthy": true
}`},
		"none local": {0, true, http.StatusServiceUnavailable, `{
	"service": {
		"namespace": "default",
		"name": "web"
	},
	"localEndpoints": 0,
	"serviceProxyHealthy": true
}`},
		"unhealthy": {2, false, http.StatusServiceUnavailable, `{
	"service": {
		"namespace": "default",
		"name": "web"
	},
	"localEndpoints": 2,
	"serviceProxyHealthy": false
}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			writeCheck(w, frontend.HealthCheck{Namespace: "default", Name: "web", Port: 32000, LocalEndpoints: c.endpoints}, c.healthy, true)
			if w.Code != c.code {
				t.Errorf("code %d, want %d", w.Code, c.code)
			}
			if got := w.Body.String(); got != c.body {
				t.Errorf("body\n%s\nwant\n%s", got, c.body)
			}
			for key, want := range map[string]string{
				"Content-Type":                     "application/json",
				"X-Content-Type-Options":           "nosniff",
				"X-Load-Balancing-Endpoint-Weight": string('0' + rune(c.endpoints)),
			} {
				if got := w.Header().Get(key); got != want {
					t.Errorf("%s: %q, want %q", key, got, want)
				}
			}
		})
	}
}

// A node that the operator drained is not chosen, and says why.
func TestCheckOfADrainedNode(t *testing.T) {
	w := httptest.NewRecorder()
	writeCheck(w, frontend.HealthCheck{Namespace: "default", Name: "web", Port: 32000, LocalEndpoints: 2}, true, false)
	if body := w.Body.String(); w.Code != http.StatusServiceUnavailable || !strings.HasSuffix(body, "\t\"serviceProxyHealthy\": true,\n\t\"nodeEligible\": false\n}") {
		t.Errorf("code %d, body\n%s", w.Code, body)
	}
}

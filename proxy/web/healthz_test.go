package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// ask returns the code and body of an answer.
func ask(h http.Handler, path string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Body.String()
}

// The answers are those of kube-proxy v1.34, with times in place of NOW and THEN.
func TestHealthAnswers(t *testing.T) {
	const families = `"status":{"IPv4":{"lastUpdated":"THEN","healthy":HEALTHY},"IPv6":{"lastUpdated":"THEN","healthy":HEALTHY}}`
	for name, c := range map[string]struct {
		path                      string
		healthy, eligible, synced bool
		code                      int
		body                      string
	}{
		"good":           {"/healthz", true, true, true, 200, `{"lastUpdated":"NOW","currentTime":"NOW","nodeEligible":true,"healthy":true,` + families + `}`},
		"hangs":          {"/healthz", false, true, true, 503, `{"lastUpdated":"THEN","currentTime":"NOW","nodeEligible":true,"healthy":false,` + families + `}`},
		"leaves":         {"/healthz", true, false, true, 503, `{"lastUpdated":"THEN","currentTime":"NOW","nodeEligible":false,"healthy":true,` + families + `}`},
		"starts":         {"/healthz", true, true, false, 200, `{"lastUpdated":"NOW","currentTime":"NOW","nodeEligible":true,"healthy":true}`},
		"never synced":   {"/healthz", false, true, false, 503, `{"lastUpdated":"0001-01-01T00:00:00Z","currentTime":"NOW","nodeEligible":true,"healthy":false}`},
		"lives":          {"/livez", true, true, true, 200, `{"lastUpdated":"NOW","currentTime":"NOW","healthy":true,` + families + `}`},
		"lives, leaving": {"/livez", true, false, true, 200, `{"lastUpdated":"NOW","currentTime":"NOW","healthy":true,` + families + `}`},
		"lives not":      {"/livez", false, true, true, 503, `{"lastUpdated":"THEN","currentTime":"NOW","healthy":false,` + families + `}`},
		"other path":     {"/", true, true, true, 404, "404 page not found\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				then := time.Now()
				time.Sleep(time.Hour)
				var answered []string
				h := Health{
					Healthy:  func() bool { return c.healthy },
					Eligible: func() bool { return c.eligible },
					Synced: func() time.Time {
						if c.synced {
							return then
						}
						return time.Time{}
					},
					Answered: func(path string, code int) { answered = append(answered, fmt.Sprint(path, code)) },
				}
				code, body := ask(h.Handler(), c.path)
				text := func(tm time.Time) string { b, _ := json.Marshal(tm); return string(b) }
				want := strings.NewReplacer(`"NOW"`, text(time.Now()), `"THEN"`, text(then), "HEALTHY", fmt.Sprint(c.healthy)).Replace(c.body)
				if code != c.code || body != want {
					t.Errorf("%d %s\nwant\n%d %s", code, body, c.code, want)
				}
				if code != 404 && (len(answered) != 1 || answered[0] != fmt.Sprint(c.path, code)) {
					t.Errorf("Answered got %q", answered)
				}
			})
		})
	}
}

// A node is eligible unless a source says otherwise.
func TestNodeIsEligible(t *testing.T) {
	h := Health{Healthy: func() bool { return true }, Synced: time.Now}
	if code, body := ask(h.Handler(), "/healthz"); code != 200 || !strings.Contains(body, `"nodeEligible":true`) {
		t.Errorf("%d %s", code, body)
	}
}

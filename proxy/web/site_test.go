package web

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestSiteAnswers(t *testing.T) {
	profiling := false
	h := Site{
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "some_metric 1\n") }),
		Mode:    func() string { return "ipvs" },
		Config: func() any {
			return map[string]any{"mode": "ipvs", "ipvs": map[string]any{"scheduler": "rr"}}
		},
		Profiling: func() bool { return profiling },
	}.Handler()
	want := func(path string, code int, body string) {
		t.Helper()
		if gotCode, got := ask(h, path); gotCode != code || !strings.Contains(got, body) {
			t.Errorf("%s: %d %s\nwant %d with %s", path, gotCode, got, code, body)
		}
	}
	if _, got := ask(h, "/proxyMode"); got != "ipvs" {
		t.Errorf("/proxyMode: %q", got) // with no newline
	}
	want("/healthz", 200, "ok")
	want("/metrics", 200, "some_metric 1")
	want("/configz", 200, `{"ipvs":{"scheduler":"rr"},"mode":"ipvs"}`)
	want("/nowhere", 404, "not found")
	want("/debug/pprof/", 404, "not found")
	want("/debug/pprof/heap", 404, "not found")

	profiling = true
	want("/debug/pprof", 301, "/debug/pprof/")
	want("/debug/pprof/", 200, "goroutine")
	want("/debug/pprof/heap?debug=1", 200, "heap profile")
	want("/debug/pprof/cmdline", 200, "web.test")
	want("/debug/pprof/symbol", 200, "num_symbols")
	want("/debug/pprof/nothing", 404, "Unknown profile")
}

// Only MaxMaking answers are made at a time. A client that leaves no longer waits.
func TestAnswersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most, all atomic.Int32
		h := bounded(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			all.Add(1)
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Second)
			now.Add(-1)
		}))
		for range 10 {
			go h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil).WithContext(ctx))
		time.Sleep(time.Minute)
		if most.Load() != MaxMaking || all.Load() < 10 {
			t.Errorf("%d at once, %d in all; want %d, 10", most.Load(), all.Load(), MaxMaking)
		}
	})
}

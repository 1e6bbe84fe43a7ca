package web

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/pprof"
	"strings"

	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// Site serves the metrics listener: monitoring and the status page. All of it is read-only. Its functions are
// called by many goroutines.
type Site struct {
	// Metrics serves /metrics.
	Metrics http.Handler
	// Mode is the proxy mode in effect: "ipvs".
	Mode func() string
	// Config returns the value of /configz, for encoding/json.
	Config func() any
	// Profiling reports whether /debug/pprof is enabled now.
	Profiling func() bool
	// Status returns the status; nil disables the page and /status.json.
	Status func(context.Context) status.Status
	// Detail is Status with the traffic of the endpoints of the named services; nil: no such traffic.
	Detail func(context.Context, []string) status.Status
	// Past is the traffic of the last minutes; nil: none is kept.
	Past *status.Past
	// Events has the recent events.
	Events *events.Ring
	// Allowed reports whether a Host header may have this name: see Hosts. Nil: any.
	Allowed func(name string) bool
}

// Handler serves /metrics, /proxyMode, /configz, /healthz, the status page at / with its /status.json, and
// /debug/pprof while it is enabled.
func (s Site) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", bounded(s.Metrics))
	mux.HandleFunc("/healthz", healthz)
	mux.HandleFunc("/proxyMode", func(w http.ResponseWriter, _ *http.Request) { writeText(w, s.Mode()) })
	mux.HandleFunc("/configz", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, r, s.Config())
	})
	if s.Status != nil {
		servePage(mux)
		mux.Handle("GET /status.json", bounded(http.HandlerFunc(s.status)))
	}
	mux.HandleFunc("/debug/pprof", s.whileProfiling(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/debug/pprof/", http.StatusMovedPermanently)
	}))
	mux.HandleFunc("/debug/pprof/", s.whileProfiling(profile))
	if s.Allowed == nil {
		return mux
	}
	// Probes of load balancers use any name, and /healthz reveals nothing.
	outer := http.NewServeMux()
	outer.HandleFunc("/healthz", healthz)
	outer.Handle("/", forHosts(s.Allowed, mux))
	return outer
}

func healthz(w http.ResponseWriter, _ *http.Request) { writeText(w, "ok") }

// status answers with the part of the status that the query asks for: see view.
func (s Site) status(w http.ResponseWriter, r *http.Request) {
	v := viewOf(r.URL.Query())
	v.past = s.Past
	a := v.of(s.Status(r.Context()))
	if a.Detail != nil && s.Detail != nil {
		a.Detail = v.find(s.Detail(r.Context(), []string{v.detail}))
	}
	list, lost, _ := s.Events.After(v.after)
	a.add(list, lost)
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, r, a)
}

// whileProfiling answers 404 unless profiling is enabled.
func (s Site) whileProfiling(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.Profiling() {
			http.NotFound(w, r)
			return
		}
		h(w, r)
	}
}

func profile(w http.ResponseWriter, r *http.Request) {
	switch strings.TrimPrefix(r.URL.Path, "/debug/pprof/") {
	case "cmdline":
		pprof.Cmdline(w, r)
	case "profile":
		pprof.Profile(w, r)
	case "symbol":
		pprof.Symbol(w, r)
	case "trace":
		pprof.Trace(w, r)
	default:
		pprof.Index(w, r) // the list, and all other profiles by name
	}
}

// writeText answers with plain text without a newline at its end, as kube-proxy does.
func writeText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	io.WriteString(w, text) // an error means that the client left
}

func writeJSON(w http.ResponseWriter, r *http.Request, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	write(w, r, "application/json", body)
}

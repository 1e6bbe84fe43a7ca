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

// Site is what the metrics listener serves: what the proxy says of itself to monitoring and to people. All
// of it is read-only. Its functions are called by many goroutines.
type Site struct {
	// Metrics serves /metrics.
	Metrics http.Handler
	// Mode is the proxy mode in effect: "ipvs".
	Mode func() string
	// Config gives what /configz answers, as something that encoding/json takes.
	Config func() any
	// Profiling says whether /debug/pprof is there now.
	Profiling func() bool
	// Status says how things stand; nil leaves out the page and /status.json.
	Status func(context.Context) status.Status
	// Detail is Status with the traffic of the endpoints of the services named; nil: it is not known.
	Detail func(context.Context, []string) status.Status
	// Events has what has happened of late.
	Events *events.Ring
	// Allowed says whether a request may name the node so: see Hosts. Nil: by any name.
	Allowed func(name string) bool
}

// Handler serves /metrics, /proxyMode, /configz, /healthz, the status page at / with its /status.json, and,
// while profiling, /debug/pprof.
func (s Site) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", inTurn(s.Metrics))
	mux.HandleFunc("/healthz", healthz)
	mux.HandleFunc("/proxyMode", func(w http.ResponseWriter, _ *http.Request) { writeText(w, s.Mode()) })
	mux.HandleFunc("/configz", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, r, s.Config())
	})
	if s.Status != nil {
		servePage(mux)
		mux.Handle("GET /status.json", inTurn(http.HandlerFunc(s.status)))
	}
	mux.HandleFunc("/debug/pprof", s.whileProfiling(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/debug/pprof/", http.StatusMovedPermanently)
	}))
	mux.HandleFunc("/debug/pprof/", s.whileProfiling(profile))
	if s.Allowed == nil {
		return mux
	}
	// Probes of load balancers name the node as they like, and /healthz tells nothing.
	outer := http.NewServeMux()
	outer.HandleFunc("/healthz", healthz)
	outer.Handle("/", forHosts(s.Allowed, mux))
	return outer
}

func healthz(w http.ResponseWriter, _ *http.Request) { writeText(w, "ok") }

// status answers with the part of the status that is asked for: see view.
func (s Site) status(w http.ResponseWriter, r *http.Request) {
	v := viewOf(r.URL.Query())
	a := v.of(s.Status(r.Context()))
	if a.Detail != nil && s.Detail != nil {
		a.Detail = v.find(s.Detail(r.Context(), []string{v.detail}))
	}
	list, lost, _ := s.Events.After(v.after)
	a.add(list, lost)
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, r, a)
}

// whileProfiling hides a handler unless profiling is on.
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
		pprof.Index(w, r) // the others by name, and the list of them
	}
}

// writeText answers with plain text and no newline, as kube-proxy does.
func writeText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	io.WriteString(w, text) // an error is the client's going away
}

func writeJSON(w http.ResponseWriter, r *http.Request, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	write(w, r, "application/json", body)
}

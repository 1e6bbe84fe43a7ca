package metrics

import (
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/svcproxy/svcproxy/proxy/status"
)

// Options are what Metrics asks and does not count itself. The functions are called by many goroutines.
type Options struct {
	Version string // of svcproxy
	// Status says how things stand. It is called once for each scrape, with the scrape's context.
	Status func(context.Context) status.Status
	// Queued is when something to do came last: Proxy.Queued.
	Queued func() time.Time
	// Work is what the kernel was asked for so far.
	Work func() Work
	Log  *slog.Logger
}

// Metrics counts what it is told. Its methods may be called from any goroutine, but for Synced.
type Metrics struct {
	options  Options
	registry *prometheus.Registry

	upstream upstream
	syncs    syncs
	client   client
	reloads  reloads
	ledger   ledger
}

// New makes metrics whose counters are at zero.
func New(o Options) *Metrics {
	m := &Metrics{
		options: o, registry: prometheus.NewRegistry(),
		upstream: newUpstream(o.Queued, o.Work), syncs: newSyncs(), client: newClient(), reloads: newReloads(),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "svcproxy_build_info", Help: "Always 1. The version of svcproxy and of the Go it was built with.",
		ConstLabels: prometheus.Labels{"version": o.Version, "goversion": runtime.Version()},
	})
	build.Set(1)
	m.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		build, worked{o.Work},
	)
	for _, group := range [][]prometheus.Collector{m.upstream.all(), m.syncs.all(), m.client.all(), m.reloads.all()} {
		m.registry.MustRegister(group...)
	}
	return m
}

// Handler serves /metrics, with the query of the package's text.
func (m *Metrics) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := prometheus.NewRegistry()
		now.MustRegister(m.standing(m.options.Status(r.Context()), r.URL.Query().Get("endpoints")))
		promhttp.HandlerFor(prometheus.Gatherers{m.registry, now}, promhttp.HandlerOpts{
			ErrorLog: slog.NewLogLogger(m.options.Log.Handler(), slog.LevelWarn),
			// A series that cannot be told is no reason to hide the others.
			ErrorHandling: promhttp.ContinueOnError,
		}).ServeHTTP(w, r)
	})
}

func (m *Metrics) standing(s status.Status, endpoints string) standing {
	return standing{status: s, traffic: m.ledger.post(s.Services), endpoints: endpoints}
}

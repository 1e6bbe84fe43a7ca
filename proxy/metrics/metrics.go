package metrics

import (
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// Options are the values that Metrics reads from others. The functions are called by many goroutines.
type Options struct {
	Version string // of svcproxy
	// Rules reports whether rules balance: mode iptables.
	Rules bool
	// Status returns the status. It is called once for each scrape, with the scrape's context.
	Status func(context.Context) status.Status
	// Frontends returns what the last plan served; nil before the first plan.
	Frontends func() *frontend.Frontends
	// Queued is when the last event arrived that called for a sync: Proxy.Queued.
	Queued func() time.Time
	// Work is what the kernel was asked for so far.
	Work func() Work
	// Late is how late probes started; nil without health checks. Outcomes are all results that probes can have.
	Late     func() Lateness
	Outcomes []string
	// BadAnswers counts messages of DNS servers, or in their name, that were no answers to a question; nil in tests.
	BadAnswers func() uint64
	Log        *slog.Logger
}

// Metrics serves /metrics. All methods but Synced may be called from any goroutine.
type Metrics struct {
	options  Options
	registry *prometheus.Registry

	kubeProxy  kubeProxy
	rules      *ruleMetrics // nil in other modes than iptables
	syncs      syncs
	restClient restClient
	reloads    reloads
	traffic    serviceTraffic
	probes     *probes
}

// New returns metrics whose counters are at zero.
func New(o Options) *Metrics {
	m := &Metrics{
		options: o, registry: prometheus.NewRegistry(),
		kubeProxy: newKubeProxy(o.Queued, o.Work), syncs: newSyncs(), restClient: newRESTClient(), reloads: newReloads(),
		probes: newProbes(o.Outcomes),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "svcproxy_build_info", Help: "Always 1. The version of svcproxy and of the Go it was built with.",
		ConstLabels: prometheus.Labels{"version": o.Version, "goversion": runtime.Version()},
	})
	build.Set(1)
	m.registry.MustRegister(build, buildInfo(o.Version), workCollector{o.Work})
	if o.BadAnswers != nil {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "svcproxy_dns_bad_answers_total",
			Help: "Messages to a DNS query of svcproxy that did not answer it: late ones, or forged ones."},
			func() float64 { return float64(o.BadAnswers()) }))
	}
	if o.Rules {
		m.rules = newRuleMetrics()
		m.registry.MustRegister(m.rules.all()...)
	}
	for _, group := range [][]prometheus.Collector{m.kubeProxy.all(), m.syncs.all(), m.restClient.all(), m.reloads.all(),
		m.probes.all()} {
		m.registry.MustRegister(group...)
	}
	return m
}

// Handler serves /metrics. The package's comment explains its query.
func (m *Metrics) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := prometheus.NewRegistry()
		now.MustRegister(m.collectorOf(m.options.Status(r.Context()), r.URL.Query().Get("endpoints")))
		// The default registry has the metrics of Go and of the process: the library registers these itself.
		promhttp.HandlerFor(prometheus.Gatherers{prometheus.DefaultGatherer, m.registry, now}, promhttp.HandlerOpts{
			ErrorLog: slog.NewLogLogger(m.options.Log.Handler(), slog.LevelWarn),
			// One broken series must not hide the others.
			ErrorHandling: promhttp.ContinueOnError,
		}).ServeHTTP(w, r)
	})
}

// collectorOf returns the collector of one scrape.
func (m *Metrics) collectorOf(s status.Status, endpoints string) statusCollector {
	var traffic []status.Traffic
	if !s.Uncounted || s.NewOnly {
		traffic = m.traffic.update(s.Services)
	}
	return statusCollector{
		status: s, traffic: traffic, frontends: m.options.Frontends(), probes: m.probes,
		late: m.options.Late, endpoints: endpoints,
	}
}

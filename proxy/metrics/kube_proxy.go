package metrics

import (
	"errors"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/sources"
)

// families are the values of the label ip_family. One sync programs both families, so a measurement of a
// sync counts for each.
var families = []kernel.Family{kernel.IPv4, kernel.IPv6}

// syncBuckets are kube-proxy's buckets for the duration of a sync: 1 ms to 16 s.
var syncBuckets = prometheus.ExponentialBuckets(0.001, 2, 15)

// programmingBuckets are kube-proxy's buckets, including the 0 at the start.
var programmingBuckets = slices.Concat(
	[]float64{0},
	prometheus.LinearBuckets(0.25, 0.25, 2),
	prometheus.LinearBuckets(1, 1, 59),
	prometheus.LinearBuckets(60, 5, 12),
	prometheus.LinearBuckets(120, 30, 7),
)

// kubeProxy holds the kubeproxy_* metrics, except the one that statusCollector exports.
type kubeProxy struct {
	syncDuration, programming, conntrackDuration *prometheus.HistogramVec
	lastSynced                                   *prometheus.GaugeVec
	restoreFailures                              *prometheus.CounterVec
	healthz, livez                               *prometheus.CounterVec

	servicesTotal, endpointsTotal     prometheus.Counter
	servicesPending, endpointsPending prometheus.Gauge

	read []prometheus.Collector // functions, called at each scrape

	work func() Work
	// Used by the loop's goroutine only: what has changed since the last sync that succeeded, by service, and
	// the time that deleting conntrack entries had taken by then.
	pending map[string]sources.Change
	took    map[kernel.Family]time.Duration
}

func newKubeProxy(queued func() time.Time, work func() Work) kubeProxy {
	const space = "kubeproxy"
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: space, Name: name, Help: help,
			Buckets: buckets}, []string{"ip_family"})
	}
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: space, Name: name, Help: help}
	}
	gauge := func(name, help string) prometheus.GaugeOpts {
		return prometheus.GaugeOpts{Namespace: space, Name: name, Help: help}
	}
	u := kubeProxy{
		syncDuration: histogram("sync_proxy_rules_duration_seconds", "How long a sync took, in seconds.", syncBuckets),
		programming: histogram("network_programming_duration_seconds",
			"Time from the event that a source noticed to the end of the sync that programmed it, in seconds.",
			programmingBuckets),
		conntrackDuration: histogram("conntrack_reconciler_sync_duration_seconds",
			"How long a sync took to delete conntrack entries, in seconds.", syncBuckets),
		lastSynced: prometheus.NewGaugeVec(gauge("sync_proxy_rules_last_timestamp_seconds",
			"When the last successful sync ended."), []string{"ip_family"}),
		restoreFailures: prometheus.NewCounterVec(counter("sync_proxy_rules_iptables_restore_failures_total",
			"Syncs in which iptables refused a rule."), []string{"ip_family"}),
		healthz: prometheus.NewCounterVec(counter("proxy_healthz_total", "Answers to /healthz."), []string{"code"}),
		livez:   prometheus.NewCounterVec(counter("proxy_livez_total", "Answers to /livez."), []string{"code"}),
		servicesTotal: prometheus.NewCounter(counter("sync_proxy_rules_service_changes_total", "Changes of services, "+
			"without changes of their endpoints.")),
		endpointsTotal: prometheus.NewCounter(counter("sync_proxy_rules_endpoint_changes_total",
			"Changes of a service's endpoints.")),
		servicesPending: prometheus.NewGauge(gauge("sync_proxy_rules_service_changes_pending", "Services whose change "+
			"the last sync failed to program.")),
		endpointsPending: prometheus.NewGauge(gauge("sync_proxy_rules_endpoint_changes_pending", "Services whose change "+
			"of endpoints the last sync failed to program.")),
		work:    work,
		pending: make(map[string]sources.Change),
		took:    make(map[kernel.Family]time.Duration),
	}
	for _, f := range families {
		family := prometheus.Labels{"ip_family": f.String()}
		lastQueued := gauge("sync_proxy_rules_last_queued_timestamp_seconds",
			"When the last event arrived that called for a sync. If this is much later than the last sync, syncs hang.")
		deleted := counter("conntrack_reconciler_deleted_entries_total",
			"Conntrack entries that were deleted because what they led to is gone.")
		lastQueued.ConstLabels, deleted.ConstLabels = family, family
		u.read = append(u.read,
			prometheus.NewGaugeFunc(lastQueued, func() float64 { return seconds(queued()) }),
			prometheus.NewCounterFunc(deleted, func() float64 { return float64(work().Tracked[f].Deleted) }))
		// Series exist from the start: kube-proxy's dashboard takes its list of nodes from one of them, and a
		// rate() needs a zero first.
		u.syncDuration.With(family)
		u.programming.With(family)
		u.conntrackDuration.With(family)
		u.lastSynced.With(family)
		u.restoreFailures.With(family)
	}
	for _, code := range []int{http.StatusOK, http.StatusServiceUnavailable} {
		u.healthz.WithLabelValues(strconv.Itoa(code))
		u.livez.WithLabelValues(strconv.Itoa(code))
	}
	return u
}

func (u *kubeProxy) all() []prometheus.Collector {
	return append([]prometheus.Collector{
		u.syncDuration, u.programming, u.conntrackDuration, u.lastSynced, u.restoreFailures, u.healthz, u.livez,
		u.servicesTotal, u.endpointsTotal, u.servicesPending, u.endpointsPending,
	}, u.read...)
}

// synced counts a sync.
func (u *kubeProxy) synced(s *proxy.Snapshot) {
	r := &s.Report
	work := u.work()
	for _, f := range families {
		family := f.String()
		u.syncDuration.WithLabelValues(family).Observe(r.Duration.Seconds())
		if r.Err == nil && r.Left == 0 {
			u.lastSynced.WithLabelValues(family).Set(seconds(r.End()))
			if !r.Seen.IsZero() {
				u.programming.WithLabelValues(family).Observe(r.End().Sub(r.Seen).Seconds())
			}
		}
		if refused(r.Err, f) {
			u.restoreFailures.WithLabelValues(family).Inc()
		}
		if took := work.Tracked[f].Took; took > u.took[f] {
			u.conntrackDuration.WithLabelValues(family).Observe((took - u.took[f]).Seconds())
			u.took[f] = took
		}
	}
	u.changed(s)
}

// changed counts the changes that a sync was the first to see, and those that it failed to program.
func (u *kubeProxy) changed(s *proxy.Snapshot) {
	if s.Report.Changed.IsZero() {
		return // no change arrived, and none is pending
	}
	changes := s.Delta.Changes
	if !s.Sourced {
		changes = nil // of health alone
	}
	services, endpoints := count(slices.Values(changes))
	u.servicesTotal.Add(services)
	u.endpointsTotal.Add(endpoints)
	if s.Report.Err == nil && s.Report.Left == 0 {
		clear(u.pending)
	} else {
		for _, c := range changes {
			earlier := u.pending[c.FullName()]
			c.Service, c.Endpoints = c.Service || earlier.Service, c.Endpoints || earlier.Endpoints
			u.pending[c.FullName()] = c
		}
	}
	services, endpoints = count(maps.Values(u.pending))
	u.servicesPending.Set(services)
	u.endpointsPending.Set(endpoints)
}

func count(changes iter.Seq[sources.Change]) (services, endpoints float64) {
	for c := range changes {
		if c.Service {
			services++
		}
		if c.Endpoints {
			endpoints++
		}
	}
	return services, endpoints
}

// refused reports whether iptables of a family refused a rule.
func refused(err error, f kernel.Family) bool {
	var apply *kernel.ApplyError
	return errors.As(err, &apply) && slices.ContainsFunc(apply.Failed, func(e *kernel.OpError) bool {
		c, ok := e.Op.Object.(kernel.Chain)
		return ok && c.Family == f
	})
}

// Answered counts an answer of the health listener. It is web.Health.Answered.
func (m *Metrics) Answered(path string, code int) {
	answers := m.kubeProxy.healthz
	if path == "/livez" {
		answers = m.kubeProxy.livez
	}
	answers.WithLabelValues(strconv.Itoa(code)).Inc()
}

// seconds is a time in seconds since 1970; 0 for the zero time.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix()) + float64(t.Nanosecond())/1e9 // UnixNano ends in 2262, certificates in 9999
}

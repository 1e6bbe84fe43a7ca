package metrics

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/sources"
)

// families are the values of the label ip_family. One sync programs both, so what is measured of a sync
// counts for each.
var families = []kernel.Family{kernel.IPv4, kernel.IPv6}

// syncBuckets are kube-proxy's for what a sync takes: 1 ms to 16 s.
var syncBuckets = prometheus.ExponentialBuckets(0.001, 2, 15)

// programmingBuckets are kube-proxy's, with the 0 that it has in front.
var programmingBuckets = slices.Concat(
	[]float64{0},
	prometheus.LinearBuckets(0.25, 0.25, 2),
	prometheus.LinearBuckets(1, 1, 59),
	prometheus.LinearBuckets(60, 5, 12),
	prometheus.LinearBuckets(120, 30, 7),
)

// upstream are the kubeproxy_* metrics, but for the one that standing has.
type upstream struct {
	syncDuration, programming, conntrackDuration *prometheus.HistogramVec
	lastSynced                                   *prometheus.GaugeVec
	restoreFailures                              *prometheus.CounterVec
	healthz, livez                               *prometheus.CounterVec

	servicesTotal, endpointsTotal     prometheus.Counter
	servicesPending, endpointsPending prometheus.Gauge

	read []prometheus.Collector // at each scrape

	work func() Work
	// Of the loop's goroutine: the table that was last heard of, the last one that was programmed, and the
	// time that connection tracking had taken by then.
	heard, programmed sources.Table
	took              map[kernel.Family]time.Duration
}

func newUpstream(queued func() time.Time, work func() Work) upstream {
	const space = "kubeproxy"
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: space, Name: name, Help: help, Buckets: buckets}, []string{"ip_family"})
	}
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: space, Name: name, Help: help}
	}
	gauge := func(name, help string) prometheus.GaugeOpts {
		return prometheus.GaugeOpts{Namespace: space, Name: name, Help: help}
	}
	u := upstream{
		syncDuration:      histogram("sync_proxy_rules_duration_seconds", "How long a sync took, in seconds.", syncBuckets),
		programming:       histogram("network_programming_duration_seconds", "Time from the event that a source noticed to the end of the sync that programmed it, in seconds.", programmingBuckets),
		conntrackDuration: histogram("conntrack_reconciler_sync_duration_seconds", "How long deleting tracked connections took in a sync, in seconds.", syncBuckets),
		lastSynced:        prometheus.NewGaugeVec(gauge("sync_proxy_rules_last_timestamp_seconds", "When the last sync that succeeded ended."), []string{"ip_family"}),
		restoreFailures:   prometheus.NewCounterVec(counter("sync_proxy_rules_iptables_restore_failures_total", "Syncs in which iptables refused a rule."), []string{"ip_family"}),
		healthz:           prometheus.NewCounterVec(counter("proxy_healthz_total", "Answers to /healthz."), []string{"code"}),
		livez:             prometheus.NewCounterVec(counter("proxy_livez_total", "Answers to /livez."), []string{"code"}),
		servicesTotal:     prometheus.NewCounter(counter("sync_proxy_rules_service_changes_total", "Changes of services, their endpoints apart.")),
		endpointsTotal:    prometheus.NewCounter(counter("sync_proxy_rules_endpoint_changes_total", "Changes of a service's endpoints.")),
		servicesPending:   prometheus.NewGauge(gauge("sync_proxy_rules_service_changes_pending", "Services whose change the last sync failed to program.")),
		endpointsPending:  prometheus.NewGauge(gauge("sync_proxy_rules_endpoint_changes_pending", "Services whose change of endpoints the last sync failed to program.")),
		work:              work,
		took:              make(map[kernel.Family]time.Duration),
	}
	for _, f := range families {
		family := prometheus.Labels{"ip_family": f.String()}
		lastQueued := gauge("sync_proxy_rules_last_queued_timestamp_seconds", "When something to do came last. If this is much later than the last sync, syncs hang.")
		deleted := counter("conntrack_reconciler_deleted_entries_total", "Tracked connections that were deleted since what they led to is gone.")
		lastQueued.ConstLabels, deleted.ConstLabels = family, family
		u.read = append(u.read,
			prometheus.NewGaugeFunc(lastQueued, func() float64 { return seconds(queued()) }),
			prometheus.NewCounterFunc(deleted, func() float64 { return float64(work().Tracked[f].Deleted) }))
		// From the start: the dashboard has its list of nodes from the second, and a rate needs a zero first.
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

func (u *upstream) all() []prometheus.Collector {
	return append([]prometheus.Collector{
		u.syncDuration, u.programming, u.conntrackDuration, u.lastSynced, u.restoreFailures, u.healthz, u.livez,
		u.servicesTotal, u.endpointsTotal, u.servicesPending, u.endpointsPending,
	}, u.read...)
}

// synced counts a sync.
func (u *upstream) synced(s *proxy.Snapshot) {
	r := &s.Report
	work := u.work()
	for _, f := range families {
		family := f.String()
		u.syncDuration.WithLabelValues(family).Observe(r.Duration.Seconds())
		if r.Err == nil {
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

// changed counts the changes that are new in a sync, and those that it did not bring to the kernel.
func (u *upstream) changed(s *proxy.Snapshot) {
	if s.Report.Changed.IsZero() {
		return // nothing came, and nothing is pending
	}
	services, endpoints := count(sources.Changes(u.heard, s.Table))
	u.servicesTotal.Add(services)
	u.endpointsTotal.Add(endpoints)
	u.heard = s.Table
	if s.Report.Err == nil {
		u.programmed = s.Table
	}
	services, endpoints = count(sources.Changes(u.programmed, s.Table))
	u.servicesPending.Set(services)
	u.endpointsPending.Set(endpoints)
}

func count(changes []sources.Change) (services, endpoints float64) {
	for _, c := range changes {
		if c.Service {
			services++
		}
		if c.Endpoints {
			endpoints++
		}
	}
	return services, endpoints
}

// refused says whether an error has a rule in it that iptables of a family did not take.
func refused(err error, f kernel.Family) bool {
	var apply *kernel.ApplyError
	return errors.As(err, &apply) && slices.ContainsFunc(apply.Failed, func(e *kernel.OpError) bool {
		c, ok := e.Op.Object.(kernel.Chain)
		return ok && c.Family == f
	})
}

// Answered counts an answer of the health listener: web.Health.Answered.
func (m *Metrics) Answered(path string, code int) {
	answers := m.upstream.healthz
	if path == "/livez" {
		answers = m.upstream.livez
	}
	answers.WithLabelValues(strconv.Itoa(code)).Inc()
}

// seconds is a time as Prometheus has it; 0 for none.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixNano()) / 1e9
}

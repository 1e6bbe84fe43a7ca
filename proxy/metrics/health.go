package metrics

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/status"
	"github.com/svcproxy/svcproxy/sources"
)

// MaxHealthEndpoints is how many checked endpoints there may be for each to have its own series in every scrape.
const MaxHealthEndpoints = 1000

// The metrics of health checks. They exist while there are health checks, orders of the operator or backups.
var (
	healthTargets = desc("health_targets", "What is probed, each once however many services share it, by state.",
		"state")
	healthChanges = desc("health_changes_total", "How often targets went up and down, first results apart.", "to")
	healthLate    = desc("health_late_seconds", "How long after they were due probes started, in seconds.")
	healthBlind   = desc("health_blind", "Whether no probe tells anything at present, by a fault of this node: the "+
		"last states count.")
	healthHeld = desc("health_mass_failure_held",
		"Whether more than half of all targets went down at once, so that the last states count for a minute.")
	healthWaiting = desc("health_exec_waiting", "Exec checks that have waited for a place for more than three of "+
		"their intervals: their last states count.")
	healthOverrides = desc("health_overrides", "Orders of the operator, by verb.", "verb")
	healthPanic     = serviceDesc("health_panic",
		"Whether endpoints of a service that are down serve because too few are up.")
	healthEndpoints = serviceDesc("health_service_endpoints",
		"Checked endpoints of a service, each once for each port, by state.", "state")
	healthEarliest = serviceDesc("health_service_certificate_expiry_timestamp_seconds",
		"When the first certificate of a service's checked endpoints expires.")
	healthUp      = serviceDesc("health_up", "Whether a service's endpoint is up.", "port", "protocol", "endpoint")
	healthExpires = serviceDesc("health_certificate_expiry_timestamp_seconds",
		"When the certificate of a service's endpoint expires.", "port", "protocol", "endpoint")
)

// probeBuckets go from 0.5 ms to 8 s.
var probeBuckets = prometheus.ExponentialBuckets(0.0005, 2, 15)

// probes counts the results of probes, and what followed. Types that are not in use have no series.
type probes struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	types    map[sources.CheckType]*probeType // does not change
	outcomes []string

	up, down atomic.Uint64 // changes of targets
}

// probeType has the series of one type of probe, all of them from its first result on.
type probeType struct {
	once     sync.Once
	results  map[string]prometheus.Counter // by outcome
	duration prometheus.Observer
}

func newProbes(outcomes []string) *probes {
	p := &probes{
		outcomes: outcomes,
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "svcproxy", Name: "health_probes_total",
			Help: "Results of probes. Result void is a failure of this node, which says nothing about the endpoint.",
		}, []string{"type", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "svcproxy", Name: "health_probe_duration_seconds", Buckets: probeBuckets,
			Help: "How long probes took from their start to their result, in seconds, those with result void apart.",
		}, []string{"type"}),
		types: map[sources.CheckType]*probeType{},
	}
	for _, t := range sources.CheckTypes() {
		p.types[t] = new(probeType)
	}
	return p
}

func (p *probes) all() []prometheus.Collector { return []prometheus.Collector{p.total, p.duration} }

// Probed counts the result of a probe. A void one says nothing about the endpoint.
func (m *Metrics) Probed(of sources.CheckType, outcome string, void bool, took time.Duration) {
	p := m.probes
	t := p.types[of]
	if t == nil {
		return // impossible: the types are a closed list
	}
	t.once.Do(func() {
		t.duration = p.duration.WithLabelValues(string(of))
		t.results = make(map[string]prometheus.Counter, len(p.outcomes))
		for _, o := range p.outcomes {
			t.results[o] = p.total.WithLabelValues(string(of), o)
		}
	})
	t.results[outcome].Inc()
	if !void {
		t.duration.Observe(took.Seconds())
	}
}

// Noticed counts the changes of targets: checker.Options.Noticed.
func (m *Metrics) Noticed(list []health.Event) {
	for _, e := range list {
		switch {
		case e.First():
		case e.Kind == health.WentUp:
			m.probes.up.Add(1)
		case e.Kind == health.WentDown, e.Kind == health.IsHeld && e.Run > 0: // other held ones went down before
			m.probes.down.Add(1)
		}
	}
}

// health exports the health checks of a status.
func (s statusCollector) health(out output) {
	h := s.status.Health
	if h == nil {
		return
	}
	for _, state := range status.HealthStates() {
		if state != status.Unchecked {
			out.gauge(healthTargets, float64(h.States[state]), string(state))
		}
	}
	out.counter(healthChanges, s.probes.up.Load(), "up")
	out.counter(healthChanges, s.probes.down.Load(), "down")
	out.gauge(healthBlind, bit(h.Blind != ""))
	out.gauge(healthHeld, bit(!h.Held.IsZero()))
	out.gauge(healthWaiting, float64(h.ExecWaiting))
	byVerb := map[string]float64{}
	for _, o := range h.Overrides {
		byVerb[o.Verb]++
	}
	for _, verb := range []health.Verb{health.Drain, health.Disable, health.Reweigh} {
		out.gauge(healthOverrides, byVerb[string(verb)], string(verb))
	}
	if s.late != nil {
		out <- s.late().histogram()
	}
	s.healthOfServices(out)
}

// Lateness is how long after they were due probes started.
type Lateness struct {
	Probes uint64
	Sum    time.Duration
	Bounds []time.Duration // of the buckets, without the last, which has none
	Counts []uint64        // probes by bucket, one more than Bounds
}

// histogram exports the lateness.
func (l Lateness) histogram() prometheus.Metric {
	buckets, sum := map[float64]uint64{}, uint64(0)
	for i, bound := range l.Bounds {
		sum += l.Counts[i]
		buckets[bound.Seconds()] = sum
	}
	return prometheus.MustNewConstHistogram(healthLate, l.Probes, l.Sum.Seconds(), buckets)
}

// healthOfServices exports the health of each service, and of each endpoint if there are few or it is asked for.
func (s statusCollector) healthOfServices(out output) {
	checked := 0
	for i := range s.status.Services {
		if h := s.status.Services[i].Health; h != nil {
			checked += h.Checked
		}
	}
	left := MaxEndpoints
	for i := range s.status.Services[:min(len(s.status.Services), MaxServices)] {
		svc := &s.status.Services[i]
		if svc.Health == nil || svc.Health.Checked == 0 || !hasSeries(svc) {
			continue
		}
		out.gauge(healthPanic, bit(svc.Health.Panics()), of(svc.Name)...)
		out.gauge(healthEndpoints, float64(svc.Health.Up), of(svc.Name, "up")...)
		out.gauge(healthEndpoints, float64(svc.Health.Down), of(svc.Name, "down")...)
		if t := earliestExpiry(svc.Endpoints); !t.IsZero() {
			out.gauge(healthEarliest, seconds(t.Truncate(time.Second)), of(svc.Name)...)
		}
		if checked > MaxHealthEndpoints && s.endpoints != "*" && !sources.SameName(s.endpoints, svc.Name) {
			continue
		}
		for j := range svc.Endpoints {
			if left == 0 {
				break // the services after this one still have their own series
			}
			left--
			healthOfEndpoint(out, svc.Name, &svc.Endpoints[j])
		}
	}
}

// hasResult reports whether a probe of an endpoint has said something.
func hasResult(h *status.EndpointHealth) bool {
	return h != nil && h.State != status.Unchecked && h.State != status.HealthState(health.Unknown.String())
}

// earliestExpiry returns when the first certificate expires; zero if there is none.
func earliestExpiry(list []status.Endpoint) (first time.Time) {
	for i := range list {
		if h := list[i].Health; hasResult(h) && !h.Expires.IsZero() && (first.IsZero() || h.Expires.Before(first)) {
			first = h.Expires
		}
	}
	return first
}

func healthOfEndpoint(out output, name string, e *status.Endpoint) {
	h := e.Health
	if !hasResult(h) {
		return
	}
	labels := of(name, e.Port, e.Protocol, e.Address.String())
	out.gauge(healthUp, bit(h.Up()), labels...)
	if !h.Expires.IsZero() {
		out.gauge(healthExpires, seconds(h.Expires.Truncate(time.Second)), labels...)
	}
}

package metrics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
)

// verbs are the values of the label verb.
var verbs = [...]string{kernel.Add: "add", kernel.Change: "change", kernel.Remove: "remove"}

// changeBuckets go from 0.5 ms to 16 s.
var changeBuckets = prometheus.ExponentialBuckets(0.0005, 2, 16)

// syncs holds the metrics of syncs. Every series starts at zero: a rate() over a series that starts at one
// misses the first event, which may be the only one.
type syncs struct {
	syncs, ops, failed, drift *prometheus.CounterVec
	change                    *prometheus.HistogramVec
}

func newSyncs() syncs {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "svcproxy", Name: name, Help: help}, labels)
	}
	s := syncs{
		syncs: counter("syncs_total", "Syncs, by cause and result.", "cause", "result"),
		ops:   counter("sync_operations_total", "Changes that the kernel acknowledged, by kind of object.", "kind", "verb"),
		failed: counter("sync_failed_operations_total",
			"Changes that the kernel refused, by kind of object. Each try counts.", "kind"),
		drift: counter("drift_corrections_total", "Objects that another program had changed and svcproxy repaired, by kind.",
			"kind"),
		change: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "svcproxy", Name: "change_duration_seconds", Buckets: changeBuckets,
			Help: "How long a change took to reach the kernel, in seconds: parse, from the event to the table; plan, from " +
				"there to the plan; apply, from there to the kernel's acknowledgement; total.",
		}, []string{"stage"}),
	}
	for _, c := range proxy.Causes() {
		s.syncs.WithLabelValues(string(c), "ok")
		s.syncs.WithLabelValues(string(c), "failed")
	}
	for k := range kernel.NumKinds {
		for _, v := range verbs {
			s.ops.WithLabelValues(k.String(), v)
		}
		s.failed.WithLabelValues(k.String())
		s.drift.WithLabelValues(k.String())
	}
	for _, stage := range []string{"parse", "plan", "apply", "total"} {
		s.change.WithLabelValues(stage)
	}
	return s
}

func (s *syncs) all() []prometheus.Collector {
	return []prometheus.Collector{s.syncs, s.ops, s.failed, s.drift, s.change}
}

// Synced counts a sync. Call it after every sync, from the loop's goroutine.
func (m *Metrics) Synced(s *proxy.Snapshot) {
	m.kubeProxy.synced(s)
	if m.rules != nil {
		m.rules.synced(s)
	}
	m.syncs.synced(&s.Report)
}

func (s *syncs) synced(r *proxy.Report) {
	result := "ok"
	if r.Err != nil {
		result = "failed"
	}
	s.syncs.WithLabelValues(string(r.Causes.First()), result).Inc()
	if !s.countFailed(r.Err) || r.Planned.IsZero() {
		return // nothing was applied but what cannot wait, or it is not known what
	}
	for kind, counted := range tally(kernel.Done(r.Plan.Ops, r.Err)) {
		for verb, n := range counted {
			s.ops.WithLabelValues(kernel.Kind(kind).String(), verbs[verb]).Add(n)
		}
	}
	for kind, counted := range tally(r.Repairs) {
		for _, n := range counted {
			s.drift.WithLabelValues(kernel.Kind(kind).String()).Add(n)
		}
	}
	if stages, ok := r.Stages(); ok && r.Err == nil && r.Left == 0 {
		s.change.WithLabelValues("parse").Observe(stages.Parse.Seconds())
		s.change.WithLabelValues("plan").Observe(stages.Plan.Seconds())
		s.change.WithLabelValues("apply").Observe(stages.Apply.Seconds())
		s.change.WithLabelValues("total").Observe(stages.Total.Seconds())
	}
}

// countFailed counts the ops that failed, and says whether the error is nil or about ops.
func (s *syncs) countFailed(err error) bool {
	var apply *kernel.ApplyError
	if err != nil && !errors.As(err, &apply) {
		return false
	}
	if apply != nil {
		for _, f := range apply.Failed {
			s.failed.WithLabelValues(f.Op.Object.Kind().String()).Inc()
		}
	}
	return true
}

// tally counts ops by kind and verb.
func tally(ops []kernel.Op) [][len(verbs)]float64 {
	counted := make([][len(verbs)]float64, kernel.NumKinds)
	for _, o := range ops {
		counted[o.Object.Kind()][o.Verb]++
	}
	return counted
}

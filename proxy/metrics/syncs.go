package metrics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
)

// verbs are the values of the label verb, by kernel.Verb.
var verbs = [...]string{kernel.Add: "add", kernel.Change: "change", kernel.Remove: "remove"}

// changeBuckets go from 0.5 ms to 16 s.
var changeBuckets = prometheus.ExponentialBuckets(0.0005, 2, 16)

// syncs are the loop's own metrics. Whatever can be counted starts at zero: of a series that starts at
// one, a rate misses the first, which may be the only one.
type syncs struct {
	syncs, ops, failed, drift *prometheus.CounterVec
	change                    *prometheus.HistogramVec
}

func newSyncs() syncs {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "svcproxy", Name: name, Help: help}, labels)
	}
	s := syncs{
		syncs:  counter("syncs_total", "Syncs, by why they were made and what became of them.", "cause", "result"),
		ops:    counter("sync_operations_total", "Changes of the kernel that it acknowledged, by kind of object.", "kind", "verb"),
		failed: counter("sync_failed_operations_total", "Changes that the kernel refused, by kind of object. Each try counts.", "kind"),
		drift:  counter("drift_corrections_total", "Objects put right that another hand had changed, by kind.", "kind"),
		change: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "svcproxy", Name: "change_duration_seconds", Buckets: changeBuckets,
			Help: "How long a change took on its way to the kernel, in seconds: parse, from the event to the table; plan, to knowing what to do; apply, to the kernel's acknowledgement; total.",
		}, []string{"stage"}),
	}
	for _, c := range proxy.Causes() {
		s.syncs.WithLabelValues(string(c), "ok")
		s.syncs.WithLabelValues(string(c), "failed")
	}
	for _, k := range kernel.Kinds() {
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

// Synced counts a sync and what came of it. It is to be called after every sync, from the loop's goroutine.
func (m *Metrics) Synced(s *proxy.Snapshot) {
	m.upstream.synced(s)
	m.syncs.synced(&s.Report)
}

func (s *syncs) synced(r *proxy.Report) {
	result := "ok"
	if r.Err != nil {
		result = "failed"
	}
	s.syncs.WithLabelValues(string(r.Cause), result).Inc()
	failed := s.refused(r.Err)
	if r.Planned.IsZero() || r.Err != nil && failed == nil {
		return // it did not come to the kernel, or nobody knows how far
	}
	for kind, counted := range tally(r.Plan.Ops, failed) {
		for verb, n := range counted {
			s.ops.WithLabelValues(kernel.Kind(kind).String(), verbs[verb]).Add(n)
		}
	}
	for kind, counted := range tally(r.Repairs(), failed) {
		for _, n := range counted {
			s.drift.WithLabelValues(kernel.Kind(kind).String()).Add(n)
		}
	}
	if stages, ok := r.Stages(); ok && r.Err == nil {
		s.change.WithLabelValues("parse").Observe(stages.Parse.Seconds())
		s.change.WithLabelValues("plan").Observe(stages.Plan.Seconds())
		s.change.WithLabelValues("apply").Observe(stages.Apply.Seconds())
		s.change.WithLabelValues("total").Observe(stages.Total.Seconds())
	}
}

// refused counts the ops that failed, and gives them by their text; nil if the error is not about ops.
func (s *syncs) refused(err error) map[string]bool {
	var apply *kernel.ApplyError
	if !errors.As(err, &apply) {
		return nil
	}
	failed := make(map[string]bool, len(apply.Failed))
	for _, f := range apply.Failed {
		s.failed.WithLabelValues(f.Op.Object.Kind().String()).Inc()
		failed[f.Op.String()] = true
	}
	return failed
}

// tally counts ops by kind and verb, those whose text is in failed left out. At a first sync there are as
// many as the table has endpoints, twice over: a text for each would cost more than telling the kernel, so
// none is made where nothing failed.
func tally(ops []kernel.Op, failed map[string]bool) [][len(verbs)]float64 {
	counted := make([][len(verbs)]float64, len(kernel.Kinds()))
	for _, o := range ops {
		if len(failed) == 0 || !failed[o.String()] {
			counted[o.Object.Kind()][o.Verb]++
		}
	}
	return counted
}

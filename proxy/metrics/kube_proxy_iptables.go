package metrics

import (
	"runtime"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
)

// kubeVersion is the release of kube-proxy whose metrics these are.
const kubeVersion = "v1.34.4"

// buildInfo is kube-proxy's metric of its version. Its label git_version names the release that svcproxy
// stands in for, which alerts compare with that of the cluster, and then svcproxy's own version.
func buildInfo(version string) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kubernetes_build_info", Help: "Always 1. The kube-proxy that svcproxy stands in for, the version of " +
			"svcproxy, and what it was built with.",
		ConstLabels: prometheus.Labels{
			"major": "1", "minor": "34", "git_version": kubeVersion + "+svcproxy-" +
				version, "git_commit": "", "git_tree_state": "", "build_date": "",
			"go_version": runtime.Version(), "compiler": runtime.Compiler, "platform": runtime.GOOS + "/" + runtime.GOARCH,
		},
	})
	g.Set(1)
	return g
}

// ruleMetrics are the metrics that kube-proxy has in mode iptables alone.
type ruleMetrics struct {
	full, partial   *prometheus.HistogramVec
	partialFailures *prometheus.CounterVec
	total, last     *prometheus.GaugeVec
	counted         bool // the rules of some sync
}

func newRuleMetrics() *ruleMetrics {
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "kubeproxy", Name: name, Help: help,
			Buckets: syncBuckets}, []string{"ip_family"})
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "kubeproxy", Name: name, Help: help},
			[]string{"table", "ip_family"})
	}
	r := &ruleMetrics{
		full: histogram("sync_full_proxy_rules_duration_seconds",
			"How long a sync took that compared all of the kernel, in seconds."),
		partial: histogram("sync_partial_proxy_rules_duration_seconds", "How long another sync took, in seconds."),
		partialFailures: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "kubeproxy",
			Name: "sync_proxy_rules_iptables_partial_restore_failures_total",
			Help: "Syncs in which iptables refused a rule, but for those that compared all of the kernel."},
			[]string{"ip_family"}),
		total: gauge("sync_proxy_rules_iptables_total", "Rules that are wanted in the chains of svcproxy, with the jumps "+
			"to them."),
		last: gauge("sync_proxy_rules_iptables_last", "Rules of the chains that were written by the last sync that wrote "+
			"any."),
	}
	for _, f := range families {
		r.full.WithLabelValues(f.String())
		r.partial.WithLabelValues(f.String())
		r.partialFailures.WithLabelValues(f.String())
		for _, table := range ruleTables {
			r.total.WithLabelValues(table, f.String())
			r.last.WithLabelValues(table, f.String())
		}
	}
	return r
}

// ruleTables are the values of the label table.
var ruleTables = []string{"filter", "nat"}

func (r *ruleMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{r.full, r.partial, r.partialFailures, r.total, r.last}
}

// synced counts a sync. Rules are counted when chains change.
func (r *ruleMetrics) synced(s *proxy.Snapshot) {
	for _, f := range families {
		took := r.partial
		if s.Report.Full {
			took = r.full
		} else if refused(s.Report.Err, f) {
			r.partialFailures.WithLabelValues(f.String()).Inc()
		}
		took.WithLabelValues(f.String()).Observe(s.Report.Duration.Seconds())
	}
	var written []kernel.Chain
	changed := !r.counted // a start may find all as it should be
	r.counted = true
	for _, op := range kernel.Done(s.Report.Plan.Ops, s.Report.Err) {
		c, ok := op.Object.(kernel.Chain)
		changed = changed || ok
		if ok && op.Verb != kernel.Remove {
			written = append(written, c)
		}
	}
	if changed {
		count := func(to *prometheus.GaugeVec, chains []kernel.Chain) {
			for _, f := range families {
				for _, table := range ruleTables {
					to.WithLabelValues(table, f.String()).Set(rulesIn(chains, f, table))
				}
			}
		}
		count(r.last, written)
		count(r.total, s.Want.Chains)
	}
}

func rulesIn(chains []kernel.Chain, f kernel.Family, table string) (n float64) {
	for i := range chains {
		if c := &chains[i]; c.Family == f && c.Table == table && c.Rules != "" {
			n += 1 + float64(strings.Count(c.Rules, "\n"))
		}
	}
	return n
}

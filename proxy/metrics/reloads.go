package metrics

import "github.com/prometheus/client_golang/prometheus"

// reloads counts reloads of the configuration, under the names that Prometheus and others use.
type reloads struct {
	total        *prometheus.CounterVec
	successful   prometheus.Gauge
	successfulAt prometheus.Gauge
}

func newReloads() reloads {
	r := reloads{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "svcproxy_config_reloads_total", Help: "Reloads of the configuration, by result.",
		}, []string{"result"}),
		successful: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "svcproxy_config_last_reload_successful",
			Help: "Whether the last reload of the configuration was accepted; 0 while the last good one is in use instead.",
		}),
		successfulAt: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "svcproxy_config_last_reload_success_timestamp_seconds",
			Help: "When the configuration was last read and accepted.",
		}),
	}
	r.total.WithLabelValues("accepted")
	r.total.WithLabelValues("refused")
	r.successful.Set(1)
	r.successfulAt.SetToCurrentTime()
	return r
}

func (r *reloads) all() []prometheus.Collector {
	return []prometheus.Collector{r.total, r.successful, r.successfulAt}
}

// Reloaded counts a reload of the configuration. The error is why it was refused; nil if it was accepted.
func (m *Metrics) Reloaded(err error) {
	if err != nil {
		m.reloads.total.WithLabelValues("refused").Inc()
		m.reloads.successful.Set(0)
		return
	}
	m.reloads.total.WithLabelValues("accepted").Inc()
	m.reloads.successful.Set(1)
	m.reloads.successfulAt.SetToCurrentTime()
}

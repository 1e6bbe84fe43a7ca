package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// client are the rest_client_* metrics: the requests to an API server.
type client struct {
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
}

func newClient() client {
	c := client{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rest_client_requests_total", Help: "Requests to the API server, by the answer's code.",
		}, []string{"code", "method", "host"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rest_client_request_duration_seconds", Help: "How long the API server took to answer, in seconds.",
			Buckets: []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60},
		}, []string{"verb", "host"}),
	}
	// Counted from zero on, so that who has asked no API server shows as 0 requests a second and not as a
	// hole in the dashboard. POST is kube-proxy's for events; svcproxy writes nothing.
	for _, code := range []string{"200", "304", "404", "500"} {
		c.requests.WithLabelValues(code, "GET", "")
	}
	for _, verb := range []string{"GET", "POST"} {
		c.latency.WithLabelValues(verb, "")
	}
	return c
}

func (c *client) all() []prometheus.Collector { return []prometheus.Collector{c.requests, c.latency} }

// Request counts a request to an API server; code is "<error>" when there was no answer.
func (m *Metrics) Request(code, method, host string) {
	m.client.requests.WithLabelValues(code, method, host).Inc()
}

// Latency counts how long an API server took to answer.
func (m *Metrics) Latency(verb, host string, d time.Duration) {
	m.client.latency.WithLabelValues(verb, host).Observe(d.Seconds())
}

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// restClient holds the rest_client_* metrics: requests to an API server.
type restClient struct {
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
}

func newRESTClient() restClient {
	c := restClient{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rest_client_requests_total", Help: "Requests to the API server, by the code of the answer.",
		}, []string{"code", "method", "host"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rest_client_request_duration_seconds", Help: "How long the API server took to answer, in seconds.",
			Buckets: []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60},
		}, []string{"verb", "host"}),
	}
	// These series start at zero, so that a node without an API server shows 0 requests per second instead of
	// a gap in the dashboard. kube-proxy POSTs events; svcproxy writes nothing.
	for _, code := range []string{"200", "304", "404", "500"} {
		c.requests.WithLabelValues(code, "GET", "")
	}
	for _, verb := range []string{"GET", "POST"} {
		c.latency.WithLabelValues(verb, "")
	}
	return c
}

func (c *restClient) all() []prometheus.Collector {
	return []prometheus.Collector{c.requests, c.latency}
}

// Request counts a request to an API server; code is "<error>" if there was no answer.
func (m *Metrics) Request(code, method, host string) {
	m.restClient.requests.WithLabelValues(code, method, host).Inc()
}

// Latency records how long an API server took to answer.
func (m *Metrics) Latency(verb, host string, d time.Duration) {
	m.restClient.latency.WithLabelValues(verb, host).Observe(d.Seconds())
}

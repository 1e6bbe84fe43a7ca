//go:build !noapiserver

package apiserver

import (
	"context"
	"net/url"
	"time"

	"k8s.io/client-go/tools/metrics"
)

// measure reports every request of client-go to m. Only the first call in a process counts.
func measure(m Metrics) {
	if m != nil {
		metrics.Register(metrics.RegisterOpts{RequestResult: results{m}, RequestLatency: latencies{m}})
	}
}

type results struct{ Metrics }

func (r results) Increment(_ context.Context, code, method, host string) {
	r.Request(code, method, host)
}

type latencies struct{ Metrics }

func (l latencies) Observe(_ context.Context, verb string, u url.URL, d time.Duration) {
	l.Latency(verb, u.Host, d)
}

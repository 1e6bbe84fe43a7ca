// Package apiserver is the source that a Kubernetes cluster has: Services and EndpointSlices, and the
// Node object of this node, listed and watched with client-go.
//
// It is the only package that imports client-go, and the build tag noapiserver leaves it out. Objects
// are trimmed to sources/manifest's compact ones as they come off the wire, and nothing else of them is
// kept. What they mean is decided there; which endpoints are used, in proxy/frontend.
//
// It writes nothing to the API server, reads nothing but these three kinds, and never takes silence for
// an empty cluster: without an answer the last table stays, for as long as it takes.
package apiserver

import (
	"log/slog"
	"time"

	"github.com/svcproxy/svcproxy/sources/manifest"
)

// Options say how to reach an API server, and whose node this is.
type Options struct {
	// Kubeconfig is a file's name and Master a URL that goes before the server in it. With neither, the
	// pod's own account is used.
	Kubeconfig, Master string

	ContentType        string  // of what is sent, and what is asked for if AcceptContentTypes is not given; "" = JSON
	AcceptContentTypes string  // what is asked for; "" = ContentType
	QPS                float64 // requests a second, watches not counted; 0 = client-go's default, 5; negative = no limit
	Burst              int     // requests at once; 0 = client-go's default, 10

	// Resync is how often the table is made anew of the objects at hand; 0 = never. It asks nothing of
	// the API server.
	Resync time.Duration
	// EmptyGrace is how long services, and slices, are kept of which a list has none any more, all at once;
	// 0 = a list is believed.
	EmptyGrace time.Duration
	// NodeName is the Node that OnNode is told of, and whose endpoints win over equal ones elsewhere.
	NodeName string

	UserAgent string // as the API server's audit log has it; "" = client-go's default
	// OnNode is told what the Node object says, at first before the first table, then when it changes,
	// from Watch's goroutine. Without a Node object it is not called. nil = the Node is not asked for.
	OnNode func(manifest.Node)

	// Both are client-go's for the whole process: the first Source's count.
	Log     *slog.Logger // for client-go's own messages, at level debug; nil = none
	Metrics Metrics      // nil = none
}

// Metrics is told of every request: what rest_client_requests_total and
// rest_client_request_duration_seconds count.
type Metrics interface {
	// Request is told the answer's code, "<error>" if there was none.
	Request(code, method, host string)
	// Latency is told how long the answer took, to its end. Only of lists: client-go does not time watches.
	Latency(verb, host string, d time.Duration)
}

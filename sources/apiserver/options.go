// Package apiserver is the source of services in a Kubernetes cluster: it lists and watches Services, EndpointSlices
// and the Node object of this node.
//
// It is the only package that imports client-go. The build tag noapiserver leaves it out. It keeps objects only in
// the compact form of sources/manifest, which converts them. proxy/frontend decides which endpoints are used.
//
// It writes nothing to the API server and reads only these three kinds. Without an answer the last table stays, for
// as long as the outage lasts.
package apiserver

import (
	"log/slog"
	"time"

	"github.com/svcproxy/svcproxy/sources/manifest"
)

// Options say how to reach an API server, and which node this is.
type Options struct {
	// Kubeconfig is the name of a file. Master is a URL that overrides the server in it. Without both, the pod's
	// own account is used.
	Kubeconfig, Master string

	ContentType        string  // of requests, and of answers if AcceptContentTypes is ""; "" = JSON
	AcceptContentTypes string  // of answers; "" = ContentType
	QPS                float64 // requests per second without watches; 0 = client-go's default, 5; negative = no limit
	Burst              int     // requests at once; 0 = client-go's default, 10

	// Resync is how often the table is made again from the objects in memory; 0 = never. It sends no request.
	Resync time.Duration
	// EmptyGrace is how long services and slices stay after a list that suddenly has none of them; 0 = not at all.
	EmptyGrace time.Duration
	// ProxyName chooses the Services: those whose label service.kubernetes.io/service-proxy-name has this value; "" =
	// those without the label, as kube-proxy does.
	ProxyName string
	// NodeName is the name of this node. Its endpoints win over equal ones elsewhere.
	NodeName string

	UserAgent string // as the API server's audit log has it; "" = client-go's default
	// OnNode is called with the Node object before the first table, and when it changes, in Watch's goroutine. It is
	// not called without a Node object. nil: the Node is not requested.
	OnNode func(manifest.Node)
	// NoNode is called before the first table if the API server has no Node object of this name. nil: not called.
	NoNode func()

	// Log and Metrics apply to client-go in the whole process: those of the first Source count.
	Log     *slog.Logger // for client-go's own messages, at level debug; nil = none
	Metrics Metrics      // nil = none
}

// Metrics counts requests, for rest_client_requests_total and rest_client_request_duration_seconds.
type Metrics interface {
	// Request counts a request by the code of its answer; "<error>" if there was none.
	Request(code, method, host string)
	// Latency gets the time to the end of an answer, of lists only: client-go does not time watches.
	Latency(verb, host string, d time.Duration)
}

// Package web answers HTTP requests from other hosts and from people. Load
// balancers ask for /healthz, /livez and the health check node ports. The metrics
// listener has /metrics, /configz and the status page.
//
// Anyone may connect, so the package bounds connections (package conns) and makes
// each answer before it sends it. The metrics listener answers only to addresses
// and the node's own names, since DNS rebinding can lead a browser on the node to
// it. /healthz, /livez and the health check node ports answer to any name: probes
// use any, and the answers tell little.
//
// The status page has at most 100 KB, without scripts or fonts from elsewhere. It asks for JSON every two seconds,
// changes values in place, and shows what is wrong first. Each badge has a word, not only a colour. It has what
// HAProxy's page has, except what the kernel does not know: queues (a backend at its maxConnections is "full"), and
// errors, retries and denials of requests. testdata/monitor opens it in a browser, with up to 5,000 services.
//
// Everything here is read-only: orders go through the control socket. The values come from functions that the caller
// gives; the package reads no table and no kernel.
package web

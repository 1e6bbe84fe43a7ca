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
// Everything here is read-only. The values come from functions that the caller
// gives; the package reads no table and no kernel.
package web

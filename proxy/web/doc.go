// Package web is what the node says of itself over HTTP: to load balancers, whether it is healthy
// (/healthz, /livez) and has endpoints of a service (the health check node ports); to monitoring and to
// people, its metrics, its configuration and a page (the metrics listener).
//
// It answers with what it was told and with functions it was given. It decides nothing, reads no table
// and no kernel, and serves nothing that changes anything.
package web

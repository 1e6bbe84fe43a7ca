// Package web is what the node says of itself over HTTP: to load balancers, whether it is healthy
// (/healthz, /livez) and has endpoints of a service (the health check node ports); to monitoring and to
// people, its metrics, its configuration and a page (the metrics listener).
//
// Anybody may connect: connections are few (package conns), answers are made before they are sent, and the
// metrics listener answers under the node's own names alone, since a browser on the node can be led to it.
// /healthz, /livez and the health check node ports answer under any: probes name them as they like, and
// they tell little.
//
// It answers with what it was told and with functions it was given. It decides nothing, reads no table
// and no kernel, and serves nothing that changes anything.
package web

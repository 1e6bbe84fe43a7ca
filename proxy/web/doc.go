// Package web is what the node says of itself over HTTP: for now the health check node ports, where load
// balancers ask whether this node has endpoints of a service.
//
// It answers with what it was told and with functions it was given. It decides nothing, reads no table
// and no kernel, and serves nothing that changes anything.
package web

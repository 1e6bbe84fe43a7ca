// Package sources defines what svcproxy is to serve: a Table of services with their endpoints. A Source
// delivers one, from files, from the main configuration or from an API server.
//
// Validate finds the errors of one table. Merge makes one table of those of all sources and decides who gets an
// address that several services ask for. A Merger does this for tables that follow each other, and computes the
// Delta, which is what differs from the table before.
//
// Everything here is a value, and the functions are pure. The package imports only the standard library, opens no
// file, and knows nothing of kernels or rules. Package proxy/frontend decides which endpoints are used, and how.
package sources

import "context"

// Source delivers tables of what to serve.
type Source interface {
	// Watch emits a complete Table at the start and whenever it changes. It returns nil when ctx ends, and an
	// error if it cannot go on. An error emitted with a zero Table means that reading failed; the last table
	// stays. A RejectedError with a Table means that part of what was read was refused; the Table is what
	// counts now. Watch calls emit from one goroutine at a time.
	Watch(ctx context.Context, emit func(Table, error)) error
}

// Others are services that a source leaves to other proxies. Its JSON form is stable.
type Others struct {
	Count int      `json:"count"`
	First []string `json:"first"` // sorted, at most MaxOthers
	Why   string   `json:"why"`
}

// MaxOthers bounds Others.First.
const MaxOthers = 20

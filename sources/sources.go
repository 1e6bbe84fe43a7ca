// Package sources is what svcproxy has been told to serve: a Table of services and their endpoints,
// and the Source interface through which one arrives, be it from files, the main configuration or an
// API server.
//
// Everything here is a value. Validate and Merge are pure: the same tables give the same problems and
// the same merged table. The package imports nothing but the standard library, opens no file, and
// knows nothing of kernels or rules: which endpoints are used, and how, is decided by proxy/frontend.
package sources

import "context"

// Source emits what is to be served.
type Source interface {
	// Watch emits a complete Table at start and whenever it changes, never a delta. It returns nil when
	// ctx ends and an error when it cannot go on. An error emitted with a zero Table means: could not
	// read; the last table stays. An error beside a Table means: this is what holds now, and part of
	// what was read was refused (see RejectedError). emit is called from one goroutine at a time.
	Watch(ctx context.Context, emit func(Table, error)) error
}

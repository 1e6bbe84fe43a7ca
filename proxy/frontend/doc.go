// Package frontend derives from a service table what one node serves: every
// address, protocol and port with its backends and policies. It also has the
// VIPs to bind, the hairpins, the health check node ports, and for each endpoint
// that gets no connections the reason.
//
// It is the only such derivation. A mode (proxy/mode) turns Frontends into a
// kernel state; status, metrics and health check ports read the same value.
//
// The package is pure: it reads no kernel, clock or file. It expects a valid,
// merged table (sources.Validate, sources.Merge) and returns the same Frontends
// for the same arguments.
package frontend

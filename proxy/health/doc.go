// Package health decides which endpoints get connections, from what probes found and what the operator ordered.
//
// It is the pure part of health checks: values in, values out, no clock, no socket, no file. Targets lists what has
// to be probed. Step folds the results of one target into its State, and Board does so for all targets. Overlay
// applies the verdicts and the operator's overrides to a table of services; Cache does the same at the cost of what
// has changed. Package proxy/health/probe sends the probes. DESIGN.md has the reasons.
package health

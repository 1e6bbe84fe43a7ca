// Package proxy is the loop that keeps the node's kernel at what the sources say. It
// takes their tables, reads the kernel, plans and applies. It runs again when a table,
// the node or the configuration changes, after a failure, while real servers drain,
// and when a check is due.
//
// The loop decides when to act. What to program is decided by sources.Merger,
// proxy/frontend, a proxy/mode and plan.Diff, which are pure. It reaches the kernel
// through the interface Kernel alone.
package proxy

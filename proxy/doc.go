// Package proxy brings the node's kernel to what the sources say, and keeps it
// there: the loop that takes tables in, reads the kernel, plans, applies, and
// comes back when something changes, fails, drains or is due for a check.
//
// It decides when, never what: what to program is the mode's and
// plan.Diff's, both pure. It knows the kernel through four methods.
package proxy

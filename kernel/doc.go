// Package kernel holds what svcproxy knows of a node's kernel as plain values:
// what it looks like (Observed), what it should look like (State), and the
// ordered steps from one to the other (Plan). Package plan computes these steps,
// package verify what a check reads at a time.
//
// It does no I/O, reads no clock and imports only the standard library. The
// packages below it (ipvs, ipset, iptables, link, sysctl) read and write the
// real thing; kernel/host puts them together.
//
// See DESIGN.md beside this file for why the phases of a plan have the order
// they have, and what makes an object ours.
package kernel

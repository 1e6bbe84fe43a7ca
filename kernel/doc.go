// Package kernel describes a node's kernel in plain values: a reading of it
// (Observed), what it should look like (State), the objects in both, and the ordered
// steps from one to the other (Plan).
//
// It does no I/O, reads no clock and imports only the standard library. Package plan
// computes plans and compares readings. The adapters (ipvs, ipset, iptables,
// link, conntrack, sysctl) read and write the real kernel, and package host joins them.
//
// DESIGN.md beside this file says why a plan has its order, which objects are owned, and
// how to add a kind of object.
package kernel

// Package plan computes the steps from one state of the kernel to another. Diff
// finds them, Carry carries them out through an adapter, and Advance gives the
// reading that follows.
//
// All of it is pure: no I/O, no clock, only the standard library. DESIGN.md of
// package kernel says why the phases have their order and which objects are owned.
package plan

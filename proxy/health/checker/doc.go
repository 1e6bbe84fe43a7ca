// Package checker runs the health checks of a node. It probes the endpoints of the table that is served, keeps what the
// operator ordered, and gives the loop a table in which endpoints have the weights that follow.
//
// The decisions are those of package health, and the probes those of package probe. This package joins them: it has
// the clock, the lock and the files.
//
// Three kinds of goroutines meet here. The loop of package proxy calls Overlay. The runner's probes report
// their results. All others ask for a View or give orders. None of them waits for another: the lock is held
// for one result, one copy or one list of targets at a time. Writing the orders to a disk has a lock of its
// own, which neither the loop nor the probes take.
package checker

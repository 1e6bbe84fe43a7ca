// Package events remembers what has happened of late: what changed, when, why,
// and how long it took to get to the kernel.
//
// It keeps a bounded number of events in memory and nothing on disk: the log is
// the record, this is its last page. It decides nothing, and looks only at what
// the loop reports.
package events

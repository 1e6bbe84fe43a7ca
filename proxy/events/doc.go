// Package events keeps the last things that happened: what changed, when, why,
// and how long it took to reach the kernel.
//
// A Recorder compares what the loop and the sources report, and adds events to a
// Ring of bounded size in memory. A File keeps the newest over a restart; the log is
// the permanent record.
package events

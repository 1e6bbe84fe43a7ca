package relay

import (
	"errors"
	"sync/atomic"
	"syscall"
	"time"
)

// files is how many file descriptors are left. A listener and a flow over UDP take one, a TCP
// connection two.
type files struct{ free atomic.Int64 }

// take takes n, or none if there are fewer.
func (f *files) take(n int64) bool {
	if f.free.Add(-n) < 0 {
		f.free.Add(n)
		return false
	}
	return true
}

func (f *files) give(n int64) { f.free.Add(n) }

// keptFiles is what is kept for the rest of the process, and for connections that were accepted and
// wait for their turn.
func keptFiles(limit int) int { return min(256, limit/8) }

// maxPipes is how many pipes there may be. Each has two file descriptors.
func maxPipes(limit int) int { return min(512, limit/16) }

// Shortage is a limit that was reached.
type Shortage uint8

// The shortages.
const (
	// NoFiles: the system or the process has no file descriptor left for a connection (EMFILE,
	// ENFILE), although the relay keeps within its limit.
	NoFiles Shortage = iota
	// TooManyConnections: the relay has as many connections as file descriptors allow. New ones
	// over TCP wait in the kernel's queue. Over UDP the oldest flow ends, or the datagram is lost.
	TooManyConnections
	// TooManyFlows: a virtual server has 65,536 flows. The oldest ends.
	TooManyFlows
	numShortages
)

// Of says what there is too little of.
func (s Shortage) Of() string {
	return [...]string{NoFiles: "file descriptors", TooManyConnections: "connections", TooManyFlows: "UDP flows"}[s]
}

// String says what happens.
func (s Shortage) String() string {
	return [...]string{
		NoFiles:            "the process or the system has none left: new connections wait",
		TooManyConnections: "as many as the limit of open files allows: new ones wait",
		TooManyFlows:       "a virtual server has as many as it may: the oldest end",
	}[s]
}

// short counts a shortage.
func (r *Relay) short(s Shortage) { r.stats.shortages[s].Add(1) }

// isShortage says that an error is this machine's and not an endpoint's.
func isShortage(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM) ||
		errors.Is(err, syscall.ENOBUFS)
}

// backoff is a pause that doubles from 5 ms to 1 s.
type backoff time.Duration

// wait pauses. It is false if done is closed first.
func (b *backoff) wait(done <-chan struct{}) bool {
	*b = min(max(2**b, backoff(5*time.Millisecond)), backoff(time.Second))
	select {
	case <-done:
		return false
	case <-time.After(time.Duration(*b)):
		return true
	}
}

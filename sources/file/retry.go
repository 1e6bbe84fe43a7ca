package file

import (
	"errors"
	"syscall"
	"time"
)

// The pauses before a file or directory is read again that could not be read for a reason that may pass.
const (
	minRetry = 2 * time.Second
	maxRetry = time.Minute
)

// retry is when to try again, and how long the pause before is. The zero retry is none.
type retry struct {
	at    time.Time
	pause time.Duration
}

// failed returns the retry after another failure.
func (r retry) failed(now time.Time) retry {
	if now.Before(r.at) {
		return r // an event came first
	}
	r.pause = RetryAfter(r.pause)
	r.at = now.Add(r.pause)
	return r
}

// RetryAfter is the pause before the next try of a read that failed, 2 s to a minute. It gets the last pause, or 0.
func RetryAfter(pause time.Duration) time.Duration { return min(max(2*pause, minRetry), maxRetry) }

// Passing reports whether the reason why a file could not be read may pass without an event, such as too many open
// files, a lack of memory, or a disk that does not answer.
func Passing(err error) bool {
	var number syscall.Errno
	if !errors.As(err, &number) {
		return false
	}
	switch number {
	case syscall.EACCES, syscall.EPERM, syscall.ENOENT, syscall.ENOTDIR, syscall.EISDIR, syscall.ELOOP, syscall.ENAMETOOLONG:
		return false
	}
	return true
}

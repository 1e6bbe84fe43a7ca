package file

import (
	"fmt"
	"slices"
	"time"
)

// pending is a file whose verdict may change although nothing happens, or a directory to be listed again. The zero
// pending is none.
type pending struct {
	since   time.Time     // the first look
	changed time.Time     // when the file changed last, as far as it is known
	now     look          // without content
	pause   time.Duration // before the next try of a read that failed
	verdict verdict       // the last one, hold or keep
}

// seen returns what a look adds: whether the file has changed once more, and when.
func (p pending) seen(now look, at time.Time, tick time.Duration) pending {
	first := p.verdict.action != hold
	if first {
		p.since = at
	}
	if first || now.id != p.now.id || now.err != nil {
		p.changed = at
		// A file's time is one of the wall clock, which may be set back. at has the monotonic clock, too.
		if age := at.Sub(now.settled(tick)); now.id != (identity{}) && age > 0 {
			p.changed = at.Add(-min(age, maxWait))
		}
	}
	now.content = Content{}
	p.now = now
	return p
}

// until is when a file that does not change any more was unchanged for a time. One that always changes is waited for
// at most that long.
func (p pending) until(patience, most time.Duration) time.Time {
	until, limit := p.changed.Add(patience), p.since.Add(most)
	if until.After(limit) {
		return limit
	}
	return until
}

// over is until when a file is waited for that another took the place of: until it is settled, or a second has passed,
// since its time may lie in the future.
func (p pending) over(at time.Time, tick time.Duration) time.Time {
	return at.Add(min(p.now.settled(tick).Sub(at), p.since.Add(time.Second).Sub(at)))
}

// retry is when to read again what could not be read; zero if the reason will not pass by itself.
func (p pending) retry(err error, at time.Time) time.Time {
	switch {
	case !Passing(err):
		return time.Time{}
	case at.Before(p.verdict.until):
		return p.verdict.until // an event came first
	}
	return at.Add(RetryAfter(p.pause))
}

// due are the files and directories to look at again.
func (g *guard) due(now time.Time) (paths []string) {
	for path, p := range g.pending {
		if !p.verdict.until.IsZero() && !now.Before(p.verdict.until) {
			paths = append(paths, path)
		}
	}
	return paths
}

// next is when the next of them is due; zero if none is.
func (g *guard) next() (next time.Time) {
	for _, p := range g.pending {
		if until := p.verdict.until; !until.IsZero() && (next.IsZero() || until.Before(next)) {
			next = until
		}
	}
	return next
}

// notices name the files that are waited for.
func (g *guard) notices() (list []string) {
	gone := 0
	for path, p := range g.pending {
		switch {
		case p.verdict.action != hold || p.verdict.why == "":
		case p.now.absent:
			gone++
		default:
			list = append(list, fmt.Sprintf("%s %s, since %s: it takes effect when it has not changed for %v",
				path, p.verdict.why, p.since.Local().Format(time.TimeOnly), p.verdict.patience))
		}
	}
	if gone > 0 {
		list = append(list, fmt.Sprintf("%d of %d service files are gone: what they have is removed when nothing more "+
			"changes for %v", gone, len(g.files), g.quiet))
	}
	slices.Sort(list)
	return list
}

package file

import (
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// A file that is written in place is half a file for as long as that takes, and half a services file is a
// whole one of half the services. So a file that is open for writing is not read; nor is one taken that has
// lost more than a third since it was last good, unless it was renamed over the old one, which is whole.
// Both are waited for until nothing has happened to them for a while.
const (
	quiet = 2 * time.Second
	// most is how long a file is waited for. One that is closed is then taken as it is; one that is still
	// written to is a problem until it is quiet.
	most = 30 * time.Second
)

// touch is what was seen to happen to a file since it was last judged.
type touch struct {
	at   time.Time // the last time
	open bool      // it was written to, and not closed since
	over bool      // it was renamed to its name, and not written to since
}

// touch notes an event.
func (s *shelf) touch(path string, what uint32) {
	t := s.touched[path]
	if t == nil {
		t = &touch{}
		s.touched[path] = t
	}
	t.at = s.now()
	switch {
	case what&syscall.IN_MOVED_TO != 0:
		t.open, t.over = false, true
	case what&syscall.IN_MODIFY != 0:
		t.open, t.over = true, false
	case what&syscall.IN_CLOSE_WRITE != 0:
		t.open = false
	case what&(syscall.IN_CREATE|syscall.IN_DELETE|syscall.IN_MOVED_FROM) != 0:
		t.open, t.over = false, false
	}
}

// waiting is a file that is not judged yet.
type waiting struct {
	since   time.Time
	changed time.Time // when it was last seen to change
	id      identity  // at the last look
	why     string
	shrunk  bool // it had lost a part; then it is waited for whatever it holds meanwhile
}

// hold has a file waited for. It says false when that has lasted too long.
func (s *shelf) hold(path string, r *record, id identity, why string, shrunk bool) bool {
	now := s.now()
	w := r.waiting
	if w == nil {
		w = &waiting{since: now, changed: now, id: id}
		if mtime := id.mtime(); s.touched[path] == nil && mtime.Before(now) {
			w.changed = mtime
		}
		r.waiting = w
		s.waits[path] = w
	}
	if t := s.touched[path]; t != nil {
		w.changed = t.at
	}
	if w.id != id {
		w.id = id
		if s.touched[path] == nil {
			w.changed = now
		}
	}
	w.why, w.shrunk = why, w.shrunk || shrunk
	return now.Sub(w.changed) < s.quiet && now.Sub(w.since) < most
}

// judged ends the wait for a file.
func (s *shelf) judged(path string, r *record) {
	r.waiting = nil
	delete(s.waits, path)
	delete(s.touched, path)
}

// busy says whether a file is not to be read now.
func (s *shelf) busy(path string, r *record, id identity, m manner) bool {
	t := s.touched[path]
	switch {
	case t != nil && t.open:
		return s.hold(path, r, id, "is being written", false)
	case m.asked || r.waiting == nil || !r.waiting.shrunk || s.whole(path, r, id):
		return false
	}
	return s.hold(path, r, id, r.waiting.why, true)
}

// whole says whether a file took the place of the one that was last judged, and was not written to since.
func (s *shelf) whole(path string, r *record, id identity) bool {
	if t := s.touched[path]; t != nil {
		return t.over
	}
	return r.id != identity{} && !r.id.sameFile(id)
}

// shrunk says whether content is not to be taken yet. services is -1 while it was not parsed.
func (s *shelf) shrunk(path string, r *record, id identity, data []byte, services int, m manner) bool {
	had := len(r.reading.table.Services)
	lost := 3*len(data) < 2*len(r.reading.text) || services >= 0 && 3*services < 2*had
	if had == 0 || !lost || m.asked || s.whole(path, r, id) {
		return false
	}
	why := fmt.Sprintf("has %d bytes and had %d", len(data), len(r.reading.text))
	if services >= 0 {
		why = fmt.Sprintf("has %d services and had %d", services, had)
	}
	return s.hold(path, r, id, why, true)
}

// writing says whether a file is open for writing.
func (s *shelf) writing() bool {
	for _, t := range s.touched {
		if t.open {
			return true
		}
	}
	return false
}

// due are the files whose wait is over, or to be looked at again.
func (s *shelf) due(now time.Time) (paths []string) {
	for path, w := range s.waits {
		if !now.Before(s.end(path, w)) {
			paths = append(paths, path)
		}
	}
	return paths
}

// end is when the wait for a file ends if nothing more happens to it.
func (s *shelf) end(path string, w *waiting) time.Time {
	if t := s.touched[path]; t != nil && t.at.After(w.changed) {
		w.changed = t.at
	}
	return w.changed.Add(s.quiet)
}

// next is when something is due; zero if nothing is.
func (s *shelf) next() (next time.Time) {
	earlier := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	for path, w := range s.waits {
		earlier(s.end(path, w))
	}
	if len(s.leaving) > 0 {
		earlier(s.leftAt.Add(s.quiet))
	}
	return next
}

// notices name the files that are waited for.
func (s *shelf) notices() (list []string) {
	for path, w := range s.waits {
		list = append(list, fmt.Sprintf("%s %s, since %s: it is read when nothing has happened to it for %v",
			path, w.why, w.since.Local().Format(time.TimeOnly), s.quiet))
	}
	if n := len(s.leaving); n > 0 {
		list = append(list, fmt.Sprintf("%d of %d service files are gone: their services go when nothing more has happened for %v", n, len(s.records), s.quiet))
	}
	slices.Sort(list)
	return list
}

// answer is what a reload is told: an error for files that are open for writing, too, which are not read.
func (s *shelf) answer(rejected error) error {
	if len(s.waits) == 0 {
		return rejected
	}
	told := &sources.RejectedError{}
	if r, ok := rejected.(*sources.RejectedError); ok {
		*told = *r
		told.Files, told.Problems = slices.Clone(r.Files), slices.Clone(r.Problems)
	}
	for _, path := range slices.Sorted(maps.Keys(s.waits)) {
		if !slices.Contains(told.Files, path) {
			told.Files = append(told.Files, path)
			told.Problems = append(told.Problems, problemOf(path, s.waits[path].why+": it is read when that has ended"))
		}
	}
	slices.Sort(told.Files)
	sources.SortProblems(told.Problems)
	return told
}

// giveUp refuses the files that are waited for.
func (s *shelf) giveUp() {
	for path := range s.waits {
		s.records[path].refuse(path, neverStill)
	}
}

// neverStill is what is wrong with a file that is written all the time.
const neverStill = "does not stop changing while it is read: write another file and rename it over"

// fewLeave is how many files may leave at once without being waited for.
const fewLeave = 10

// leave takes files out that globs no longer find. Many at once are waited for: a directory that is removed
// with all that is in it loses its files first, and is then known to be missing itself.
func (s *shelf) leave(left []string, m manner) (changed bool) {
	now := s.now()
	for _, path := range left {
		if !s.leaving[path] {
			s.leaving[path], s.leftAt = true, now
		}
	}
	many := len(s.leaving) > fewLeave && 3*len(s.leaving) > len(s.records)
	if many && !m.asked && now.Sub(s.leftAt) < s.quiet {
		return false
	}
	for path := range s.leaving {
		if r := s.records[path]; r != nil {
			changed = changed || r.good || r.problems != nil
			s.drop(path)
		}
	}
	s.leaving = map[string]bool{}
	return changed
}

// leavingDue says whether it is time to see whether files that have gone are gone for good.
func (s *shelf) leavingDue(now time.Time) bool {
	return len(s.leaving) > 0 && !now.Before(s.leftAt.Add(s.quiet))
}

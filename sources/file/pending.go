package file

import (
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// A file that is being written in place may hold a part of its content that is valid but lacks services. So a
// file that is open for writing is not read. A file that lost more than a third since it was last good is not
// accepted, unless it was renamed over the old one and so is complete. Both are read after a while without
// events.
const (
	quiet = 2 * time.Second
	// maxWait bounds the wait for a file. If it is closed then, its content is accepted; if it is still written
	// to, that is a problem until it is quiet.
	maxWait = 30 * time.Second
)

// touch is the events of a file since it was last judged.
type touch struct {
	at   time.Time // of the last event
	open bool      // it was written to, and not closed since
	over bool      // it was renamed to its name, and not written to since
}

// touch notes an event of a file.
func (s *store) touch(path string, what uint32) {
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
	changed time.Time // when it last changed
	id      identity  // at the last look
	why     string
	shrunk  bool // it had lost a part: wait on, whatever it holds meanwhile
}

// hold makes a file wait. It returns false if the wait is over.
func (s *store) hold(path string, r *record, id identity, why string, shrunk bool) bool {
	now := s.now()
	delete(s.retries, path)
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
	return now.Sub(w.changed) < s.quiet && now.Sub(w.since) < maxWait
}

// judged ends the wait for a file.
func (s *store) judged(path string, r *record) {
	r.waiting = nil
	delete(s.waits, path)
	delete(s.touched, path)
	delete(s.retries, path)
}

// mustWait reports whether a file must not be read now, and then makes it wait.
func (s *store) mustWait(path string, r *record, id identity, sc scope) bool {
	t := s.touched[path]
	switch {
	case t != nil && t.open:
		return s.hold(path, r, id, "is being written", false)
	case sc.asked || r.waiting == nil || !r.waiting.shrunk || s.replaced(path, r, id):
		return false
	}
	return s.hold(path, r, id, r.waiting.why, true)
}

// replaced reports whether another file was renamed over the one that was last judged, and not written to since.
func (s *store) replaced(path string, r *record, id identity) bool {
	if t := s.touched[path]; t != nil {
		return t.over
	}
	return r.id != identity{} && !r.id.sameFile(id)
}

// mustWaitForRest reports whether a file lost a part, which may still be written, and then makes the file wait. services is
// -1 if it is not parsed yet.
func (s *store) mustWaitForRest(path string, r *record, id identity, data []byte, services int, sc scope) bool {
	had := r.reading.table.Services.Len()
	lost := 3*len(data) < 2*r.reading.text.size || services >= 0 && 3*services < 2*had
	if had == 0 || !lost || sc.asked || s.replaced(path, r, id) {
		return false
	}
	why := fmt.Sprintf("has %d bytes and had %d", len(data), r.reading.text.size)
	if services >= 0 {
		why = fmt.Sprintf("has %s and had %d", sources.Count(services, "service"), had)
	}
	return s.hold(path, r, id, why, true)
}

// writing reports whether a file is open for writing.
func (s *store) writing() bool {
	for _, t := range s.touched {
		if t.open {
			return true
		}
	}
	return false
}

// due are the files to look at again.
func (s *store) due(now time.Time) (paths []string) {
	for path, w := range s.waits {
		if !now.Before(s.end(path, w)) {
			paths = append(paths, path)
		}
	}
	for path, r := range s.retries {
		if !now.Before(r.at) {
			paths = append(paths, path)
		}
	}
	return paths
}

// end is when the wait for a file ends if nothing more happens to it.
func (s *store) end(path string, w *waiting) time.Time {
	if t := s.touched[path]; t != nil && t.at.After(w.changed) {
		w.changed = t.at
	}
	return w.changed.Add(s.quiet)
}

// next is when the next file is due; zero if none is.
func (s *store) next() (next time.Time) {
	earlier := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	for path, w := range s.waits {
		earlier(s.end(path, w))
	}
	for _, r := range s.retries {
		earlier(r.at)
	}
	if len(s.leaving) > 0 {
		earlier(s.leftAt.Add(s.quiet))
	}
	if s.relist != (retry{}) {
		earlier(s.relist.at)
	}
	return next
}

// notices name the files that are waited for.
func (s *store) notices() (list []string) {
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

// answer is the error of a Reload. It also names the files that are open for writing, which were not read.
func (s *store) answer(rejected error) error {
	if len(s.waits) == 0 {
		return rejected
	}
	all := &sources.RejectedError{}
	if r, ok := rejected.(*sources.RejectedError); ok {
		*all = *r
		all.Files, all.Problems = slices.Clone(r.Files), slices.Clone(r.Problems)
	}
	for _, path := range slices.Sorted(maps.Keys(s.waits)) {
		if !slices.Contains(all.Files, path) {
			all.Files = append(all.Files, path)
			all.Problems = append(all.Problems, problemOf(path, s.waits[path].why+": it is read when that has ended"))
		}
	}
	slices.Sort(all.Files)
	sources.SortProblems(all.Problems)
	return all
}

// giveUp refuses the files that still wait.
func (s *store) giveUp() {
	for path := range s.waits {
		s.records[path].refuse(path, neverStill)
	}
}

// neverStill is the problem of a file that is written all the time.
const neverStill = "does not stop changing while it is read: write another file and rename it over"

// maxLeaving is how many files may leave at once without a wait.
const maxLeaving = 10

// leave removes files that globs no longer find. If many go at once, it waits: when a directory is removed with
// its files, the files go first, and then the missing directory keeps their content.
func (s *store) leave(left []string, sc scope) (changed bool) {
	now := s.now()
	for _, path := range left {
		if !s.leaving[path] {
			s.leaving[path], s.leftAt = true, now
			if r := s.records[path]; r != nil {
				s.judged(path, r)
			}
		}
	}
	many := len(s.leaving) > maxLeaving && 3*len(s.leaving) > len(s.records)
	if many && !sc.asked && now.Sub(s.leftAt) < s.quiet {
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

// relistDue reports whether the wait for files that are gone is over, or a directory is to be listed again.
func (s *store) relistDue(now time.Time) bool {
	return len(s.leaving) > 0 && !now.Before(s.leftAt.Add(s.quiet)) || s.relist != (retry{}) && !now.Before(s.relist.at)
}

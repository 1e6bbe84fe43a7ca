package file

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// store holds the last good content of each file, in memory.
type store struct {
	now      func() time.Time
	records  map[string]*record  // by path
	starting bool                // this is the first reading: content that earlier runs kept counts
	progress *progress           // of the reading
	quiet    time.Duration       // see Options
	optional bool                // see Options
	checking bool                // the outcome is not served, only checked
	touched  map[string]*touch   // events of files since they were last judged
	waits    map[string]*waiting // files that are not judged yet
	leaving  map[string]bool     // files that are gone and whose services are still served
	leftAt   time.Time           // when the last of them went
	order    []string            // the paths of records, sorted; nil: to be computed
	absent   []lostDir           // directories that are missing and had files
	mounts   map[string]mount    // of directories when they last had files
	retries  map[string]retry    // files that could not be read for a reason that may pass
	relist   retry               // the same for directories
	unread   []sources.Problem   // directories that could not be listed
	backups  *backups            // what earlier runs kept; nil after the first reading
	unsaved  copies              // what was accepted or left since the last call of takeUnsaved

	newWarnings bool // the warnings may have changed

	refused      int // bytes that were read and refused
	stats, reads int // stat calls and files read: the cost of a reading
}

// lostDir is a directory whose files are gone with it.
type lostDir struct {
	path      string
	elsewhere bool // it is there, on another mount
}

// record is one file.
type record struct {
	named    bool              // by the configuration, not found by a glob
	good     bool              // some content was accepted
	since    time.Time         // when it was accepted
	earlier  bool              // an earlier run accepted it, and this one none yet
	reading  reading           // of the last good content
	warnings []sources.Problem // about that content
	missing  bool              // the file did not exist at the last look
	unknown  bool              // it may have been good in an earlier run, whose record is lost
	waiting  *waiting          // not judged yet
	id       identity          // of the file that was judged last
	idSure   bool              // a file of this identity has the same content
	problems []sources.Problem // why the present content is refused
}

func newStore() *store {
	return &store{
		now: time.Now, quiet: quiet, records: map[string]*record{}, starting: true, progress: new(progress), unsaved: copies{},
		touched: map[string]*touch{}, waits: map[string]*waiting{}, leaving: map[string]bool{},
		mounts: map[string]mount{}, retries: map[string]retry{},
	}
}

// update looks at all listed files and says whether the outcome changed.
func (s *store) update(l *listing, sc scope) (changed bool) {
	var left []string
	l.elsewhere = s.elsewhere(l)
	maps.DeleteFunc(s.leaving, func(path string, _ bool) bool {
		_, listed := slices.BinarySearch(l.files, path)
		return listed || l.mayHold(path)
	})
	for path, r := range s.records {
		_, listed := slices.BinarySearch(l.files, path)
		switch {
		case listed:
		case l.mayHold(path) && (r.good || l.named[path]):
			s.judged(path, r) // there is no writer to wait for
		default:
			left = append(left, path)
		}
	}
	changed = s.leave(left, sc)
	maps.DeleteFunc(s.touched, func(path string, _ *touch) bool {
		_, listed := slices.BinarySearch(l.files, path)
		return !listed && s.records[path] == nil
	})
	for _, path := range l.missing {
		if r := s.records[path]; s.optional && (r == nil || !r.good) {
			continue
		}
		changed = s.record(path, l).gone(path) || changed
	}
	for i, path := range l.files {
		changed = s.look(path, l, sc) || changed
		s.progress.set(i+1, len(l.files))
	}
	absent := s.missed(l)
	if l.passing {
		s.relist = s.relist.failed(s.now())
	} else {
		s.relist = retry{}
	}
	changed = changed || !slices.Equal(s.unread, l.problems) || !slices.Equal(s.absent, absent)
	s.unread, s.absent = l.problems, absent
	return changed
}

// missed returns those missing directories that had files.
func (s *store) missed(l *listing) (missed []lostDir) {
	add := func(dirs []string, elsewhere bool) {
		for _, dir := range dirs {
			for path, r := range s.records {
				if r.good && below(dir, path) {
					missed = append(missed, lostDir{dir, elsewhere})
					break
				}
			}
		}
	}
	add(l.absent, false)
	add(l.elsewhere, true)
	return missed
}

// refresh is update for some paths alone, whether their files exist or not. The listing must be up to date.
func (s *store) refresh(l *listing, paths []string, sc scope) (changed bool) {
	var left []string
	for _, path := range paths {
		if _, listed := slices.BinarySearch(l.files, path); listed {
			delete(s.leaving, path)
			changed = s.look(path, l, sc) || changed
		} else if s.records[path] == nil {
			delete(s.touched, path) // it came and went
			delete(s.retries, path)
		} else if !l.mayHold(path) {
			left = append(left, path)
		} else {
			delete(s.retries, path)
		}
	}
	return s.leave(left, sc) || changed
}

// look reads a file, unless it has not changed since it was judged, or may be half written.
func (s *store) look(path string, l *listing, sc scope) (changed bool) {
	r := s.record(path, l)
	s.stats++
	id, err := identify(path)
	same := err == nil && r.id == id && r.idSure && s.touched[path] == nil && r.waiting == nil
	if same && !sc.all || err == nil && s.mustWait(path, r, id, sc) {
		return false
	}
	s.reads++
	before := s.retries[path]
	delete(s.retries, path)
	content, id, err := read(path)
	switch {
	case errors.Is(err, errChanging):
		s.hold(path, r, id, "is being written", false)
		if r.waiting.changed = s.now(); s.now().Sub(r.waiting.since) < maxWait {
			return false
		}
		return r.refuse(path, neverStill)
	case err == nil && r.waiting != nil && s.stillWritten(path, r):
		return r.refuse(path, neverStill)
	case errors.Is(err, fs.ErrNotExist):
		s.judged(path, r)
		return s.vanished(path, l, r)
	case err != nil:
		s.judged(path, r)
		if Passing(err) {
			s.retries[path] = before.failed(s.now())
		}
		r.idSure = false
		return r.reject([]sources.Problem{unreadable(path, "", err)})
	}
	return s.judge(path, content, id, l, sc)
}

// stillWritten says whether a file is still written to although the longest wait is over.
func (s *store) stillWritten(path string, r *record) bool {
	t := s.touched[path]
	return t != nil && t.open && s.now().Sub(r.waiting.changed) < s.quiet
}

func (s *store) record(path string, l *listing) *record {
	r := s.records[path]
	if r == nil {
		r = &record{named: l.named[path]}
		s.records[path], s.order = r, nil
		if s.starting {
			r.unknown, s.newWarnings = !s.backups.recall(path, r), true
		}
	}
	return r
}

// drop forgets a file.
func (s *store) drop(path string) {
	s.judged(path, s.records[path])
	delete(s.records, path)
	s.unsaved[path], s.order, s.newWarnings = nil, nil, true
}

// vanished handles a file that was listed and cannot be found: a dangling link, or one that was removed since,
// for which an event will come.
func (s *store) vanished(path string, l *listing, r *record) bool {
	if _, err := os.Lstat(path); err == nil {
		return r.refuse(path, "is a link to nothing")
	}
	if l.named[path] {
		return r.gone(path)
	}
	return false
}

// gone notes that a file that the configuration names is missing.
func (r *record) gone(path string) bool {
	changed := r.refuse(path, "is not there")
	r.missing = true
	return changed
}

// refuse notes a problem with the file itself, and says whether it is new.
func (r *record) refuse(path, why string) bool {
	r.idSure = false
	return r.reject([]sources.Problem{problemOf(path, why)})
}

// problemOf is a problem with a file or directory itself.
func problemOf(path, why string) sources.Problem {
	return sources.Problem{Origin: sources.Origin{Source: sources.Files, File: path}, Message: why}
}

// unreadable is problemOf for a file or directory that cannot be read. what is said before the cause.
func unreadable(path, what string, err error) sources.Problem {
	p := problemOf(path, what+cause(err).Error())
	p.Denied = errors.Is(err, fs.ErrPermission)
	return p
}

func (r *record) reject(problems []sources.Problem) bool {
	changed := !slices.Equal(r.problems, problems)
	r.problems, r.missing = problems, false
	return changed
}

// judge accepts or refuses the content of a file, and notes what to keep of it.
func (s *store) judge(path string, content Content, id identity, l *listing, sc scope) bool {
	r, data := s.record(path, l), content.Data
	if s.mustWaitForRest(path, r, id, data, -1, sc) {
		return false
	}
	before, wasGood := r.reading.text, r.good
	changed, ok := r.accept(path, content, func(services int) bool { return !s.mustWaitForRest(path, r, id, data, services, sc) })
	if !ok {
		return false
	}
	s.judged(path, r)
	if len(r.problems) > 0 {
		s.refused += len(data)
	}
	s.newWarnings = s.newWarnings || r.reading.text != before || !wasGood
	r.id, r.idSure = id, id.sure(s.now())
	if r.good && (!wasGood || r.reading.text != before) {
		r.since = s.now()
		s.unsaved[path] = &accepted{data, r.since}
	}
	return changed
}

// takeUnsaved returns what was accepted, or has left, since the last call.
func (s *store) takeUnsaved() copies {
	unsaved := s.unsaved
	s.unsaved = copies{}
	return unsaved
}

// accept makes data the file's last good content, or notes why not; changed says whether either is new. It calls
// whole with the number of services. If whole returns false, accept does nothing and returns ok false.
func (r *record) accept(path string, content Content, whole func(services int) bool) (changed, ok bool) {
	data := content.Data
	if r.good && r.reading.text.is(data) {
		r.earlier = false
		return r.reject(nil), true
	}
	now, problems := decodeAfter(r.reading, path, data)
	if n, had := now.table.Services.Len(), r.reading.table.Services.Len(); len(problems) == 0 && had > 0 {
		if !whole(n) {
			return false, false
		}
		if n == 0 && !declaresNone(data) {
			what := "has no services and had"
			if len(data) == 0 {
				what = "is empty and had"
			}
			return r.refuse(path, fmt.Sprintf("%s %s: to have none, write services = {} in it", what, sources.Count(had, "service"))), true
		}
	}
	delta, warnings, problems := r.validate(now, problems)
	if len(problems) > 0 {
		return r.reject(content.Problems(problems)), true
	}
	changed = r.reject(nil) || !r.good || !delta.Empty()
	r.good, r.earlier, r.warnings = true, false, content.Problems(warnings)
	return changed, true
}

// declaresNone says whether a file without services has an empty services table. Otherwise, as with a file of
// comments alone, it may have lost its content by accident.
func declaresNone(data []byte) bool {
	tree, _, _, _ := fields.Parse(data)
	_, ok := tree["services"]
	return ok
}

// validate takes a reading if it has no problems. delta is what differs from the last good content.
func (r *record) validate(now reading, problems []sources.Problem) (delta sources.Delta, warnings, refused []sources.Problem) {
	var errs []sources.Problem
	if r.good {
		delta, errs = sources.Revalidate(r.reading.table, now.table)
	} else {
		errs = sources.Validate(now.table)
	}
	if problems = few(append(problems, errs...)); len(problems) == 0 {
		before := r.reading.table
		r.reading = now
		r.reading.table = now.table.After(before, delta)
	}
	return delta, few(now.warnings), problems
}

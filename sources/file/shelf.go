package file

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// shelf holds each file's last good content.
type shelf struct {
	now     func() time.Time
	records map[string]*record // by path
	// starting: this is the first reading, at which what earlier runs kept counts.
	starting bool
	progress *progress // of the reading
	quiet    time.Duration
	touched  map[string]*touch   // what happened to files since they were last judged
	waits    map[string]*waiting // files that are not judged yet
	leaving  map[string]bool     // files that are gone, and whose services are not
	leftAt   time.Time           // when the last of them went
	order    []string            // the paths of records, sorted; nil when that is to be done
	absent   []string            // directories that are not there

	newDoubts bool // the warnings may be others

	refused      int // bytes that were read and refused
	stats, reads int // files asked for and read: what a reading costs
	// checking: nobody serves the outcome.
	checking bool
	// optional: a named file that never was there need not be.
	optional bool
	unread   []sources.Problem // directories that could not be listed
	stored   *stored           // what earlier runs kept; nil after the first reading
	fresh    copies            // what was accepted or left since the last call of news
}

// record is one file.
type record struct {
	named    bool              // by the configuration, not found by a glob
	good     bool              // some content of it was accepted
	since    time.Time         // when
	earlier  bool              // in an earlier run, and none in this one
	reading  reading           // of that content
	warnings []sources.Problem // about that content
	missing  bool              // it was not there when last looked for
	unknown  bool              // it may have been good in an earlier run: the record of that is lost
	waiting  *waiting          // it is not judged yet
	id       identity          // of the file that was judged last
	idSure   bool              // a file of this identity has the same content
	problems []sources.Problem // why what is there now is not what table says
}

func newShelf() *shelf {
	return &shelf{
		now: time.Now, quiet: quiet, records: map[string]*record{}, starting: true, progress: new(progress), fresh: copies{},
		touched: map[string]*touch{}, waits: map[string]*waiting{}, leaving: map[string]bool{},
	}
}

// update looks at all that is listed, and says whether the outcome differs from the last one.
func (s *shelf) update(l *listing, m manner) (changed bool) {
	var left []string
	maps.DeleteFunc(s.leaving, func(path string, _ bool) bool {
		_, listed := slices.BinarySearch(l.files, path)
		return listed || l.mayHold(path)
	})
	for path, r := range s.records {
		if _, listed := slices.BinarySearch(l.files, path); listed || l.mayHold(path) && (r.good || l.named[path]) {
			continue
		}
		left = append(left, path)
	}
	changed = s.leave(left, m)
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
		changed = s.look(path, l, m) || changed
		s.progress.set(i+1, len(l.files))
	}
	absent := s.missed(l.absent)
	changed = changed || !slices.Equal(s.unread, l.problems) || !slices.Equal(s.absent, absent)
	s.unread, s.absent = l.problems, absent
	return changed
}

// missed are those of some directories that had files.
func (s *shelf) missed(absent []string) (missed []string) {
	for _, dir := range absent {
		for path, r := range s.records {
			if r.good && below(dir, path) {
				missed = append(missed, dir)
				break
			}
		}
	}
	return missed
}

// refresh is update for some files alone, there or not. The listing is of now.
func (s *shelf) refresh(l *listing, paths []string, m manner) (changed bool) {
	var left []string
	for _, path := range paths {
		if _, listed := slices.BinarySearch(l.files, path); listed {
			delete(s.leaving, path)
			changed = s.look(path, l, m) || changed
		} else if s.records[path] == nil {
			delete(s.touched, path) // it came and went
		} else if !l.mayHold(path) {
			left = append(left, path)
		}
	}
	return s.leave(left, m) || changed
}

// look reads a file, unless it is the same that was judged last, or is not to be read yet.
func (s *shelf) look(path string, l *listing, m manner) (changed bool) {
	r := s.record(path, l)
	s.stats++
	id, err := identify(path)
	same := err == nil && r.id == id && r.idSure && s.touched[path] == nil && r.waiting == nil
	if same && !m.every || err == nil && s.busy(path, r, id, m) {
		return false
	}
	s.reads++
	data, id, err := read(path)
	switch {
	case errors.Is(err, errChanging):
		s.hold(path, r, id, "is being written", false)
		if r.waiting.changed = s.now(); s.now().Sub(r.waiting.since) < most {
			return false
		}
		return r.refuse(path, neverStill)
	case err == nil && r.waiting != nil && s.unquiet(path, r):
		return r.refuse(path, neverStill)
	case errors.Is(err, fs.ErrNotExist):
		s.judged(path, r)
		return s.vanished(path, l, r)
	case err != nil:
		s.judged(path, r)
		return r.refuse(path, cause(err).Error())
	}
	return s.take(path, data, id, l, m)
}

// unquiet says whether a file is written to though it was waited for as long as that may take.
func (s *shelf) unquiet(path string, r *record) bool {
	t := s.touched[path]
	return t != nil && t.open && s.now().Sub(r.waiting.changed) < s.quiet
}

func (s *shelf) record(path string, l *listing) *record {
	r := s.records[path]
	if r == nil {
		r = &record{named: l.named[path]}
		s.records[path], s.order = r, nil
		if s.starting {
			r.unknown, s.newDoubts = !s.stored.recall(path, r), true
		}
	}
	return r
}

// drop forgets a file.
func (s *shelf) drop(path string) {
	s.judged(path, s.records[path])
	delete(s.records, path)
	s.fresh[path], s.order, s.newDoubts = nil, nil, true
}

// vanished deals with a file that was listed and is not there to be read: a link to nothing, or gone in
// between, for which there will be an event.
func (s *shelf) vanished(path string, l *listing, r *record) bool {
	if _, err := os.Lstat(path); err == nil {
		return r.refuse(path, "is a link to nothing")
	}
	if l.named[path] {
		return r.gone(path)
	}
	return false
}

// gone notes that a file the configuration names is not there.
func (r *record) gone(path string) bool {
	changed := r.refuse(path, "is not there")
	r.missing = true
	return changed
}

// refuse notes a problem with the file itself, and whether that is news.
func (r *record) refuse(path, why string) bool {
	r.idSure = false
	return r.reject([]sources.Problem{problemOf(path, why)})
}

// problemOf is a problem with a file, or directory, itself.
func problemOf(path, why string) sources.Problem {
	return sources.Problem{Origin: sources.Origin{Source: "file", File: path}, Message: why}
}

func (r *record) reject(problems []sources.Problem) bool {
	news := !slices.Equal(r.problems, problems)
	r.problems, r.missing = problems, false
	return news
}

// take has a record take what its file holds, and notes what is to be kept of it.
func (s *shelf) take(path string, data []byte, id identity, l *listing, m manner) bool {
	r := s.record(path, l)
	if s.shrunk(path, r, id, data, -1, m) {
		return false
	}
	before, wasGood := r.reading.text, r.good
	news, ok := r.take(path, data, func(services int) bool { return !s.shrunk(path, r, id, data, services, m) })
	if !ok {
		return false
	}
	s.judged(path, r)
	if len(r.problems) > 0 {
		s.refused += len(data)
	}
	s.newDoubts = s.newDoubts || r.reading.text != before || !wasGood
	r.id, r.idSure = id, id.sure(s.now())
	if r.good && (!wasGood || r.reading.text != before) {
		r.since = s.now()
		s.fresh[path] = &accepted{data, r.since}
	}
	return news
}

// news is what was accepted, or has left, since it was last asked for.
func (s *shelf) news() copies {
	fresh := s.fresh
	s.fresh = copies{}
	return fresh
}

// take makes content the file's last good one, or notes why not; news says whether anything is new. It is
// not ok, and nothing is done, where whole, told the number of services, says no.
func (r *record) take(path string, data []byte, whole func(services int) bool) (news, ok bool) {
	if r.good && string(data) == r.reading.text {
		r.earlier = false
		return r.reject(nil), true
	}
	before := r.reading.table
	now, problems := after(r.reading, path, data)
	if n, had := len(now.table.Services), len(before.Services); len(problems) == 0 && had > 0 {
		if !whole(n) {
			return false, false
		}
		if n == 0 && !saysNone(data) {
			what := "has no services and had"
			if len(data) == 0 {
				what = "is empty and had"
			}
			return r.refuse(path, fmt.Sprintf("%s %d services: to have none, write services = {} in it", what, had)), true
		}
	}
	warnings, problems := r.judge(now, problems)
	if len(problems) > 0 {
		return r.reject(problems), true
	}
	news = r.reject(nil) || !r.good || !reflect.DeepEqual(before, r.reading.table)
	r.good, r.earlier, r.warnings = true, false, warnings
	return news, true
}

// saysNone says whether a file without services says that there are none: it has a table of them, an empty
// one. One of comments alone may be what an accident has left.
func saysNone(data []byte) bool {
	tree, _, _, _ := fields.Parse(data)
	_, ok := tree["services"]
	return ok
}

// judge validates a reading, and takes it if nothing is wrong with it.
func (r *record) judge(now reading, problems []sources.Problem) (warnings, refused []sources.Problem) {
	var errs []sources.Problem
	if r.good {
		errs = sources.Revalidate(r.reading.table, now.table)
	} else {
		errs = sources.Validate(now.table)
	}
	if problems = few(append(problems, errs...)); len(problems) == 0 {
		r.reading = now
	}
	return few(now.warnings), problems
}

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
)

// shelf holds each file's last good content.
type shelf struct {
	host    func() sources.HostFacts
	now     func() time.Time
	records map[string]*record // by path
	// starting: this is the first reading, at which what earlier runs kept counts.
	starting bool
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
	host     sources.HostFacts // that it was found valid for
	warnings []sources.Problem // about that content
	missing  bool              // it was not there when last looked for
	unknown  bool              // it may have been good in an earlier run: the record of that is lost
	problems []sources.Problem // why what is there now is not what table says
}

func newShelf(host func() sources.HostFacts) *shelf {
	if host == nil {
		host = func() sources.HostFacts { return sources.HostFacts{} }
	}
	return &shelf{host: host, now: time.Now, records: map[string]*record{}, starting: true, fresh: copies{}}
}

// update reads what is listed. It says whether the outcome differs from the last one, and which files
// could not be read because they are being written: those are to be read again, or given up.
func (s *shelf) update(l *listing) (changed bool, writing []string) {
	for path, r := range s.records {
		if _, listed := slices.BinarySearch(l.files, path); !listed && !l.mayHold(path) {
			// A glob no longer finds it: its services are no more.
			changed = changed || r.good || r.problems != nil
			delete(s.records, path)
			s.fresh[path] = nil
		}
	}
	for _, path := range l.missing {
		if r := s.records[path]; s.optional && (r == nil || !r.good) {
			continue
		}
		changed = s.record(path, l).gone(path) || changed
	}
	host := s.host()
	for _, path := range l.files {
		data, err := read(path)
		switch {
		case errors.Is(err, errChanging):
			writing = append(writing, path)
		case errors.Is(err, fs.ErrNotExist):
			changed = s.vanished(path, l) || changed
		case err != nil:
			changed = s.record(path, l).refuse(path, cause(err).Error()) || changed
		default:
			changed = s.take(path, data, l, host) || changed
		}
	}
	changed = changed || !slices.Equal(s.unread, l.problems)
	s.unread = l.problems
	return changed, writing
}

// giveUp refuses files that never hold still; their last good content stays.
func (s *shelf) giveUp(paths []string, l *listing) (changed bool) {
	for _, path := range paths {
		changed = s.record(path, l).refuse(path, "does not stop changing while it is read: write another file and rename it over") || changed
	}
	return changed
}

func (s *shelf) record(path string, l *listing) *record {
	r := s.records[path]
	if r == nil {
		r = &record{named: l.named[path]}
		s.records[path] = r
		if s.starting {
			r.unknown = !s.stored.recall(path, r, s.host())
		}
	}
	return r
}

// vanished deals with a file that was listed and is not there to be read: a link to nothing, or gone in
// between, for which there will be an event.
func (s *shelf) vanished(path string, l *listing) bool {
	if _, err := os.Lstat(path); err == nil {
		return s.record(path, l).refuse(path, "is a link to nothing")
	}
	if l.named[path] {
		return s.record(path, l).gone(path)
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
	origin := sources.Origin{Source: "file", File: path}
	return r.reject([]sources.Problem{{Origin: origin, Message: why}})
}

func (r *record) reject(problems []sources.Problem) bool {
	news := !slices.Equal(r.problems, problems)
	r.problems, r.missing = problems, false
	return news
}

// take has a record take what its file holds, and notes what is to be kept of it.
func (s *shelf) take(path string, data []byte, l *listing, host sources.HostFacts) bool {
	r := s.record(path, l)
	before := r.reading.text
	wasGood := r.good
	news := r.take(path, data, host)
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

// take makes content the file's last good one, or notes why not; it says whether anything is new.
func (r *record) take(path string, data []byte, host sources.HostFacts) bool {
	if n := len(r.reading.table.Services); len(data) == 0 && n > 0 {
		return r.refuse(path, fmt.Sprintf("is empty and had %d services: to have none, leave a comment in it", n))
	}
	if r.good && string(data) == r.reading.text {
		r.earlier = false
		return r.reject(nil)
	}
	before := r.reading.table
	warnings, problems := r.judge(path, data, host)
	if len(problems) > 0 {
		return r.reject(problems)
	}
	news := r.reject(nil) || !r.good || !reflect.DeepEqual(before, r.reading.table)
	r.good, r.earlier, r.warnings = true, false, warnings
	return news
}

// judge reads and validates content, and takes it if nothing is wrong with it.
func (r *record) judge(path string, data []byte, host sources.HostFacts) (warnings, problems []sources.Problem) {
	now, problems := after(r.reading, path, data)
	var doubts, errs []sources.Problem
	if r.good && reflect.DeepEqual(r.host, host) {
		doubts, errs = sources.Revalidate(r.reading.table, now.table, host)
	} else {
		doubts, errs = sources.Validate(now.table, host)
	}
	if problems = few(append(problems, errs...)); len(problems) == 0 {
		r.reading, r.host = now, host
	}
	return few(append(few(now.warnings), doubts...)), problems
}

// outcome joins the last good contents in order of path. The error is nil or a *sources.RejectedError.
func (s *shelf) outcome() (sources.Table, error) {
	var tables []sources.Table
	good := false
	rejected := &sources.RejectedError{Problems: slices.Clone(s.unread), Incomplete: len(s.unread) > 0}
	for _, path := range slices.Sorted(maps.Keys(s.records)) {
		r := s.records[path]
		good = good || r.good
		if len(r.reading.table.Services) > 0 {
			tables = append(tables, r.reading.table)
		}
		if r.earlier {
			rejected.Stale = append(rejected.Stale, sources.StaleFile{Path: path, Good: r.since})
		}
		if len(r.problems) > 0 {
			rejected.Files = append(rejected.Files, path)
			problems := slices.Clone(r.problems)
			switch {
			case r.good:
				problems[0].Message += "; serving the last good content of " + r.since.Local().Format("2006-01-02 15:04")
			case !r.missing && !s.checking:
				problems[0].Message += "; nothing of this file is served until it is mended"
				rejected.Unserved = append(rejected.Unserved, path)
			}
			rejected.Problems = append(rejected.Problems, problems...)
			rejected.Incomplete = rejected.Incomplete || !r.good && (r.unknown || r.named && r.missing)
		}
	}
	table := joined(tables)
	if len(rejected.Problems) == 0 {
		return table, nil
	}
	sources.SortProblems(rejected.Problems)
	rejected.Nothing = !good && len(rejected.Unserved) > 0
	return table, rejected
}

// joined makes one table of accepted ones. In one alone no service is in another's way: Validate said so.
// Who gives way in several is not decided here: that depends on what other sources have, and had.
func joined(tables []sources.Table) sources.Table {
	if len(tables) == 1 {
		return tables[0].Apart()
	}
	return sources.Join(tables...)
}

// doubts are the warnings about what is served.
func (s *shelf) doubts() []sources.Problem {
	var all []sources.Problem
	for _, r := range s.records {
		all = append(all, r.warnings...)
	}
	sources.SortProblems(all)
	return all
}

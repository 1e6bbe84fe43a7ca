package file

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// A file that is written in place may be read half. Half a file does not parse, or it lacks its end, so it removes
// something. Only that is waited for:
//
//   - what was renamed over the file is complete, and counts at once; so does what a Reload asks for
//   - what was written in place and removes nothing counts after the debounce
//   - what was written in place and removes something, or is not valid, counts once the file was quiet for a while
//   - what cannot be read, is gone with its directory or is on a file system that is not mounted changes nothing
//
// All of that is decided by judge, from what is there and never from how it came to be so.

// guard holds what is served of all files and why more is not, and decides when that changes.
type guard struct {
	waits
	lists    string             // the folder of lists; "" = none
	files    map[string]*file   // by path
	pending  map[string]pending // by path
	mounts   map[string]mount   // of directories when they last had files
	lost     []lostDir          // directories that are missing and had files
	unread   []sources.Problem  // directories that could not be listed
	backups  *backups           // what earlier runs kept; nil after the first reading
	starting bool               // this is the first reading
	checking bool               // the outcome is not served, only checked
	unsaved  copies             // what was accepted or left since the last call of takeUnsaved
	order    []string           // the paths of files, sorted; nil: to be computed
}

func newGuard(w waits, lists string) *guard {
	return &guard{
		waits: w, lists: lists, files: map[string]*file{}, pending: map[string]pending{}, mounts: map[string]mount{},
		starting: true, unsaved: copies{},
	}
}

// file returns what is known of a file.
func (g *guard) file(path string) *file {
	f := g.files[path]
	if f == nil {
		f = &file{}
		if g.lists != "" && filepath.Dir(path) == g.lists {
			f.list = filepath.Base(path)
		}
		g.files[path], g.order = f, nil
		if g.starting {
			f.unknown = !g.backups.recall(path, f)
		}
	}
	return f
}

// take judges what a look found, and reports whether the outcome changed.
func (g *guard) take(path string, now look, asked bool, at time.Time) (changed bool) {
	f := g.file(path)
	if g.starting && (f.served == nil && !errors.Is(now.err, errChanging) || now.absent && now.named) {
		asked = true // nothing is lost
	}
	p := g.pending[path].seen(now, at, g.tick)
	v := g.judge(path, f, now, p, asked, at)
	if v.action == keep && !v.until.IsZero() && v.until != p.verdict.until {
		p.pause = RetryAfter(p.pause)
	}
	p.verdict = v
	if g.pending[path] = p; v.until.IsZero() {
		delete(g.pending, path)
	}
	switch {
	case v.action == hold:
		return false
	case v.action == accept && v.next == nil:
		g.forget(path)
		return v.news
	}
	f.judged, f.judged.content = now, Content{}
	changed = v.news || !slices.Equal(f.problems, v.problems)
	f.problems = v.problems
	if v.action == accept {
		if f.served == nil || f.served.reading.text != v.next.reading.text {
			g.unsaved[path] = &accepted{now.content.Data, v.next.since}
		}
		f.served = v.next
	}
	return changed
}

// action is what becomes of a file.
type action int

const (
	accept action = iota // its content is served
	hold                 // it is looked at again
	keep                 // it is refused: the last good content stays
)

// verdict is what becomes of a file, and why.
type verdict struct {
	action   action
	until    time.Time         // when to look again although nothing happens; zero: not
	patience time.Duration     // of hold: for how long the file must not change
	why      string            // of hold, for people; "": it is only the debounce
	next     *served           // of accept; nil: the file has left
	problems []sources.Problem // of keep
	news     bool              // accept serves something else than before
}

// waits are for how long a file must not change before it counts.
type waits struct {
	// debounce is for any file. One that removes nothing counts then.
	debounce time.Duration
	// quiet is for one that is not valid, that is gone, or that would remove endpoints or VIPs. It is longQuiet times
	// as long for one that would remove a service, or all of its endpoints: half a file does that, wherever it ends,
	// and its writer may wait for a disk or a server.
	//
	// It is also for one that removes anything and was renamed over another in the tick in which it was written, since
	// it may have been created there: see look.replaces.
	quiet time.Duration
	// tick is for a link that leads to another file now: see look.settled.
	tick time.Duration
}

const (
	longQuiet = 10
	// maxWait bounds the wait for a file that changes all the time.
	maxWait = 30 * time.Second
)

// judge decides about a file from its last good content and the file judged last, from what is there now, and from how
// long it did not change. asked: a Reload wants the present content.
func (w waits) judge(path string, last *file, now look, p pending, asked bool, at time.Time) verdict {
	wait := func(patience time.Duration, why string, or verdict) verdict {
		if until := p.until(patience, maxWait); !asked && at.Before(until) {
			return verdict{action: hold, until: until, patience: patience, why: why}
		}
		return or
	}
	switch {
	case now.hidden:
		return verdict{action: keep, problems: last.problems}
	case now.absent && now.named && last.judged.absent:
		return refusal(problemOf(path, notThere))
	case now.absent && now.named:
		return wait(w.debounce, "", refusal(problemOf(path, notThere)))
	case now.absent:
		return wait(w.quiet, "is gone", verdict{action: accept, news: last.served != nil || last.problems != nil})
	case errors.Is(now.err, errChanging) && !asked && at.Before(p.since.Add(maxWait)):
		return verdict{action: hold, until: at.Add(w.quiet), patience: w.quiet, why: "is being written"}
	case errors.Is(now.err, errChanging):
		v := refusal(problemOf(path, neverStill))
		v.until = at.Add(w.quiet)
		return v
	case errors.Is(now.err, fs.ErrNotExist):
		return refusal(problemOf(path, "is a link to nothing"))
	case now.err != nil:
		v := refusal(unreadable(path, "", now.err))
		v.until = p.retry(now.err, at)
		return v
	}
	complete := now.replaces(last.judged)
	if until := p.until(w.debounce, 20*w.debounce); !complete && !asked && at.Before(until) {
		return verdict{action: hold, until: until}
	}
	v, lost := weigh(path, last.list, last.served, now.content, at)
	switch {
	case complete && v.action == accept && lost.nothing():
		return v
	case complete && now.moved():
		return v
	case complete && v.action == accept && now.real != last.judged.real:
		if until := p.over(at, w.tick); !asked && at.Before(until) {
			return verdict{action: hold, until: until}
		}
		return v
	case complete && v.action == accept:
		return wait(w.quiet, lost.String(), v)
	case v.action == keep:
		return wait(w.quiet, "is not valid: "+v.problems[0].Message, v)
	case lost.services > 0:
		return wait(longQuiet*w.quiet, lost.String(), v)
	case !lost.nothing():
		return wait(w.quiet, lost.String(), v)
	}
	return v
}

const (
	notThere   = "is not there"
	neverStill = "does not stop changing while it is read: write another file and rename it over"
)

func refusal(p sources.Problem) verdict { return verdict{action: keep, problems: []sources.Problem{p}} }

// weigh accepts or refuses content by what it says alone, and returns what it would remove. list is the name of the
// list that it is; "" = it has services.
func weigh(path, list string, last *served, content Content, at time.Time) (v verdict, lost loss) {
	if last != nil && last.reading.text.Is(content.Data) {
		again := *last
		again.earlier, again.warnings = false, content.Problems(again.warnings)
		return verdict{action: accept, next: &again}, loss{}
	}
	var before sources.Table
	next := &served{since: at}
	if last != nil {
		before, next.reading = last.reading.table, last.reading
	}
	kind, none := "service", "services = {}"
	var now reading
	var problems []sources.Problem
	if list == "" {
		now, problems = decodeAfter(next.reading, path, content.Data)
	} else {
		kind, none = "network", noNetworks
		now, problems = decodeList(next.reading, path, list, content.Data)
	}
	had := size(before)
	if len(problems) == 0 && had > 0 && size(now.table) == 0 && !declaresNone(list, content.Data) {
		what := "has no " + kind + "s and had"
		if len(content.Data) == 0 {
			what = "is empty and had"
		}
		what = fmt.Sprintf("%s %s: to have none, write %s in it", what, sources.Count(had, kind), none)
		return refusal(problemOf(path, what)), loss{}
	}
	var delta sources.Delta
	var errs []sources.Problem
	if last != nil {
		delta, errs = sources.Revalidate(before, now.table)
	} else {
		errs = sources.Validate(now.table)
	}
	if problems = few(append(problems, errs...)); len(problems) > 0 {
		return verdict{action: keep, problems: content.Problems(problems)}, loss{}
	}
	if lost = lossOf(before, now.table, delta); list != "" {
		lost = lostOf(before, now.table.Lists[0], content.Data)
	}
	next.reading, next.warnings = now, content.Problems(few(now.warnings))
	next.reading.table = now.table.After(before, delta)
	return verdict{action: accept, next: next, news: last == nil || !delta.Empty()}, lost
}

// size counts the services or networks of a file.
func size(t sources.Table) int {
	if len(t.Lists) > 0 {
		return len(t.Lists[0].Prefixes)
	}
	return t.Services.Len()
}

// declaresNone reports whether a file without services has an empty services table, or a list without networks the line
// that says so. Otherwise, as with a file of comments alone, it may have lost its content by accident.
func declaresNone(list string, data []byte) bool {
	if list != "" {
		return slices.ContainsFunc(bytes.Split(data, []byte("\n")), func(line []byte) bool {
			return string(bytes.TrimSpace(line)) == noNetworks
		})
	}
	tree, _, _, _ := fields.Parse(data)
	_, ok := tree["services"]
	return ok
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

package file

import (
	"errors"
	"fmt"
	"io/fs"
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

// look is what one reading found at the path of a file.
type look struct {
	id      identity
	real    string // the path that links lead to; "" = not known
	renamed int64  // when a name in the directory of real came, went or was replaced last, as times of identity
	content Content
	err     error // why there is no content

	sure   bool // another look that finds the same id finds the same content
	absent bool // there is no file, nor a link
	named  bool // of an absent one: the configuration names it, so it should be there
	hidden bool // its directory is gone, not mounted or cannot be listed, which is a problem of that
}

// replaces reports whether another file was put in the place of the one judged last, when it was complete: its name is
// newer than its content. A file that was created here and is written since has newer content.
//
// That is sure only of a file that moved. Two others look as if it had been renamed: one that was removed, created and
// written in one tick, and one that is being written while another name in its directory comes or goes.
func (l look) replaces(was look) bool {
	switch {
	case was.id == identity{} || l.id == identity{}:
		return false
	case l.real != was.real:
		return true
	case l.id.sameFile(was.id):
		return false
	}
	return l.id.change > l.id.written || l.renamed >= l.id.written
}

// settled is from when on another change would not have the time of the last one, which is in ticks of the kernel's
// clock, or in whole seconds where the file system has no others.
func (l look) settled(tick time.Duration) time.Time {
	if l.id.written%1e9 == 0 {
		tick = 2 * time.Second
	}
	return time.Unix(0, l.id.written).Add(tick)
}

// moved reports whether the file was renamed in a later tick than it was written in. A change of its mode or owner
// cannot be told from that.
func (l look) moved() bool { return l.id.change > l.id.written && l.id.written%1e9 != 0 }

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
	v, lost := weigh(path, last.served, now.content, at)
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

// weigh accepts or refuses content by what it says alone, and returns what it would remove.
func weigh(path string, last *served, content Content, at time.Time) (v verdict, lost loss) {
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
	now, problems := decodeAfter(next.reading, path, content.Data)
	had := before.Services.Len()
	if len(problems) == 0 && had > 0 && now.table.Services.Len() == 0 && !declaresNone(content.Data) {
		what := "has no services and had"
		if len(content.Data) == 0 {
			what = "is empty and had"
		}
		what = fmt.Sprintf("%s %s: to have none, write services = {} in it", what, sources.Count(had, "service"))
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
	lost = lossOf(before, now.table, delta)
	next.reading, next.warnings = now, content.Problems(few(now.warnings))
	next.reading.table = now.table.After(before, delta)
	return verdict{action: accept, next: next, news: last == nil || !delta.Empty()}, lost
}

// declaresNone reports whether a file without services has an empty services table. Otherwise, as with a file of
// comments alone, it may have lost its content by accident.
func declaresNone(data []byte) bool {
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

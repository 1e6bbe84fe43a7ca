package file

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// follower is one run of a Source: its watches, and what it has read so far. Only the goroutine that
// runs Watch uses it.
type follower struct {
	o       Options
	shelf   *shelf
	listing *listing
	keeper  *keeper         // nil when nothing is kept
	watcher *watcher        // nil when not watching
	names   map[string]bool // real paths that something happened to since the last reading
	relist  bool            // more has happened than is known by names
	blind   error           // why there is no watcher though there should be
	retry   time.Time       // when to watch again what could not be watched
	calm    time.Duration   // how long it must be quiet before the next reading
	last    time.Time       // when the last reading ended
	dead    map[string]error
	told    map[string]bool // warnings that were logged

	warnings *atomic.Pointer[[]string] // the Source's
}

func (s *Source) follow() *follower {
	f := &follower{
		o:     s.o,
		shelf: newShelf(),
		names: map[string]bool{},
		calm:  s.o.Debounce,
		dead:  map[string]error{},
		told:  map[string]bool{},

		warnings: &s.warnings,
	}
	if s.o.Keep != "" {
		f.shelf.stored = open(s.o.Keep, s.o.Log)
		f.keeper = newKeeper(s.o.Keep, s.o.Log)
	}
	f.shelf.optional, f.shelf.quiet, f.shelf.progress = s.o.Optional, s.o.quiet, &s.progress
	if s.o.Watch {
		f.begin()
	}
	return f
}

func (f *follower) close() {
	if f.keeper != nil {
		f.keeper.close()
	}
	if f.watcher != nil {
		f.watcher.close()
	}
}

// first is the first read. What earlier runs kept stands in for what is refused, and for what may be in a
// directory that is not there or cannot be listed; what they kept of files that have left since is of no use
// any more.
func (f *follower) first() {
	s := f.shelf
	f.read(manner{every: true})
	defer func() { s.starting, s.stored = false, nil }()
	if s.stored == nil {
		return
	}
	for _, path := range s.stored.others(s.records) {
		if f.listing.mayHold(path) {
			s.record(path, f.listing)
		} else {
			s.fresh[path] = nil
		}
	}
	s.absent = s.missed(f.listing.absent)
}

// keep has the disk follow what is served.
func (f *follower) keep() {
	if news := f.shelf.news(); f.keeper != nil {
		f.keeper.keep(news)
	}
}

// manner is how files are read.
type manner struct {
	every bool // also those that have not changed by what the directory says of them
	asked bool // somebody asks for what is there now: see Reload
}

// read looks at what has changed, or at everything, and says whether the outcome is another one. What the
// events name is looked at alone where that is enough: the cost of an edit is that of the file edited.
func (f *follower) read(m manner) (changed bool) {
	files, ok := f.listed()
	if m.every || !ok {
		f.listing = list(f.o.Paths, f.watch)
		f.unwatch()
		changed = f.shelf.update(f.listing, m)
	} else {
		changed = f.shelf.refresh(f.listing, files, m)
	}
	f.names, f.relist = map[string]bool{}, false
	f.tell()
	if f.shelf.refused >= large {
		debug.FreeOSMemory()
	}
	f.shelf.refused = 0
	f.last = f.shelf.now()
	return changed
}

// large is how many bytes of refused files make up for a collection: what was read of them is of no use, and
// may be 20 times as much. A refusal is followed by no sync, after which memory is given back otherwise.
const large = 1 << 20

// listed brings the listing up to date with the names that something happened to, and gives the files to
// look at; false where it has to be made anew.
func (f *follower) listed() (files []string, ok bool) {
	files = f.shelf.due(f.shelf.now())
	if f.listing == nil || f.relist || f.shelf.leavingDue(f.shelf.now()) {
		return nil, false
	}
	for name := range f.names {
		more, ok := f.listing.refresh(name)
		if !ok {
			return nil, false
		}
		files = append(files, more...)
	}
	return files, true
}

// note is told of an event, and says whether it could matter.
func (f *follower) note(e event) bool {
	if !f.listing.concerns(e.path) {
		return false
	}
	f.names[e.path] = true
	for _, path := range f.listing.at(e.path) {
		f.shelf.touch(path, e.what)
	}
	return true
}

// settle waits for the end of the changes that have begun, or until a reload is asked for, which is then
// to be answered.
func (f *follower) settle(ctx context.Context, reloads <-chan chan<- error) (reload chan<- error, err error) {
	f.calm = patience(f.o.Debounce, f.calm, time.Since(f.last))
	return f.wait(ctx, reloads)
}

// patience is how long it must be quiet before a reading, after one that waited so long and ended so long
// ago. Who writes once is not kept waiting. A program that writes a thousand times with a pause now and
// then is read, and the node synced, at longer and longer intervals, of at most 8 debounces: 400 ms.
func patience(debounce, before, ago time.Duration) time.Duration {
	if ago > 20*debounce {
		return debounce
	}
	return min(2*before, 8*debounce)
}

// wait returns when nothing of interest has happened for a while: a save is many events, and what is read
// in the middle of one is half a file. A stream of events that does not end is cut off.
func (f *follower) wait(ctx context.Context, reloads <-chan chan<- error) (reload chan<- error, err error) {
	calm, limit := time.NewTimer(f.calm), time.NewTimer(20*f.o.Debounce)
	defer calm.Stop()
	defer limit.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case reload := <-reloads:
			return reload, nil
		case <-calm.C:
			return nil, nil
		case <-limit.C:
			return nil, nil
		case e := <-f.changes():
			if f.note(e) {
				calm.Reset(f.calm)
			}
		case err := <-f.faults():
			f.fault(err)
		}
	}
}

// pause is how long until something is due without an event: a file that is waited for, or a watch that is
// tried again.
func (f *follower) pause() time.Duration {
	next, now := f.shelf.next(), f.shelf.now()
	if f.o.Watch && (f.watcher == nil || len(f.dead) > 0) && (next.IsZero() || f.retry.Before(next)) {
		next = f.retry
	}
	if next.IsZero() {
		return time.Hour
	}
	return max(0, next.Sub(now))
}

// tell logs the warnings about what is served, each once for as long as it holds.
func (f *follower) tell() {
	if !f.shelf.newDoubts {
		return
	}
	f.shelf.newDoubts = false
	told := map[string]bool{}
	var lines []string
	for _, w := range f.shelf.doubts() {
		line := w.Error()
		lines = append(lines, line)
		if told[line] = true; !f.told[line] {
			f.o.Log.Warn(line)
		}
	}
	f.told = told
	f.warnings.Store(&lines)
}

// notices are what should be known and is no fault of a file: that it is waited for, and what is not watched.
func (f *follower) notices() []string {
	list := f.shelf.notices()
	if f.blind != nil {
		list = append(list, fmt.Sprintf("service files are not watched, so changes wait for the next reading, every %v: %v", f.o.Resync, f.blind))
	}
	for dir, err := range f.dead {
		list = append(list, fmt.Sprintf("%s is not watched, so changes wait for the next reading, every %v: %v", dir, f.o.Resync, err))
	}
	return list
}

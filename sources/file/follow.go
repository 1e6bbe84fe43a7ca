package file

import (
	"context"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"
)

// follower is one run of a Source: its watches and the content that it has read. Only the goroutine of Watch
// uses it.
type follower struct {
	o       Options
	store   *store
	listing *listing
	saver   *saver          // nil without Options.Keep
	watcher *watcher        // nil when not watching
	names   map[string]bool // real paths that had events since the last reading
	relist  bool            // the names do not cover all that may have changed
	last    time.Time       // when the last reading ended
	delay   time.Duration   // how long there must be no event before the next reading
	limited bool            // the last wait ended in the middle of events
	logged  map[string]bool // warnings

	unwatched map[string]bool // directories that cannot be watched
	retry     time.Time       // when to try to watch again
	mountsAt  time.Time       // when to look for mounts again

	warnings *atomic.Pointer[[]string] // the Source's
}

func (s *Source) follow() *follower {
	f := &follower{
		o:     s.o,
		store: newStore(),
		names: map[string]bool{},
		delay: s.o.Debounce,

		logged:    map[string]bool{},
		unwatched: map[string]bool{},

		warnings: &s.warnings,
	}
	if s.o.Keep != "" {
		f.store.backups = openBackups(s.o.Keep, s.o.Log)
		f.saver = newSaver(s.o.Keep, s.o.Keeper, s.o.Log)
		for dir, point := range f.saver.points {
			f.store.mounts[dir] = mount{point: point}
		}
	}
	f.mountsAt = f.store.now().Add(f.o.remount)
	f.store.optional, f.store.quiet, f.store.progress = s.o.Optional, s.o.quiet, &s.progress
	if s.o.Watch {
		f.startWatcher()
	}
	return f
}

func (f *follower) close() {
	if f.saver != nil {
		f.saver.close()
	}
	if f.watcher != nil {
		f.watcher.close()
	}
}

// first is the first reading. The content that earlier runs kept replaces that of refused files, and of files
// in a directory that is missing, that is no longer mounted or that cannot be listed. Kept content of files that have left is deleted.
func (f *follower) first() {
	s := f.store
	f.read(scope{all: true})
	defer func() { s.starting, s.backups = false, nil }()
	if s.backups == nil {
		return
	}
	for _, path := range s.backups.others(s.records) {
		if f.listing.mayHold(path) {
			r := s.record(path, f.listing)
			if _, missing := slices.BinarySearch(f.listing.missing, path); missing && r.good {
				r.gone(path)
			}
		} else {
			s.unsaved[path] = nil
		}
	}
	s.absent = s.missed(f.listing)
}

// save has the copies on disk follow what is served.
func (f *follower) save() {
	if copies := f.store.takeUnsaved(); f.saver != nil {
		f.saver.save(copies, f.store.mountPoints())
	}
}

// scope says which files to read, and how carefully.
type scope struct {
	all   bool // also those whose size and times have not changed
	asked bool // a Reload asks for the present content: do not wait for the end of a write
}

// read reads what has changed, or everything, and reports whether the outcome changed. If the events name all that
// changed, it looks at those files alone, so an edit costs as much as the edited file.
func (f *follower) read(sc scope) (changed bool) {
	files, ok := f.listed()
	if sc.all || !ok {
		f.listing = list(f.o.Paths, f.o.Literal, f.watch)
		f.unwatch()
		changed = f.store.update(f.listing, sc)
	} else {
		changed = f.store.refresh(f.listing, files, sc)
	}
	f.names, f.relist = map[string]bool{}, false
	f.logWarnings()
	if f.store.refused >= large {
		debug.FreeOSMemory()
	}
	f.store.refused = 0
	f.last = f.store.now()
	return changed
}

// large is the size of refused files, in bytes, that is worth a garbage collection. Parsing takes up to 20
// times the memory of the text. After an accepted change the daemon returns memory at the end of the sync; a
// refused one has no sync.
const large = 1 << 20

// listed updates the listing with the names that had events and returns the files to look at. It returns false
// if everything must be listed again.
func (f *follower) listed() (files []string, ok bool) {
	files = f.store.due(f.store.now())
	if f.listing == nil || f.relist || f.store.relistDue(f.store.now()) || len(f.listing.elsewhere) > 0 {
		return nil, false // a file elsewhere ends the wait for the mount
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

// note records an event and reports whether it concerns a listed path.
func (f *follower) note(e event) bool {
	if !f.listing.concerns(e.path) {
		return false
	}
	f.names[e.path] = true
	for _, path := range f.listing.at(e.path) {
		f.store.touch(path, e.what)
	}
	return true
}

// debounce waits for the end of a burst of changes. It returns early with a reload that must be answered.
func (f *follower) debounce(ctx context.Context, reloads <-chan chan<- error) (reload chan<- error, err error) {
	quiet := f.delay
	if f.limited {
		quiet = 0
	}
	f.delay = debounceFor(f.o.Debounce, f.delay, quiet+time.Since(f.last))
	return f.wait(ctx, reloads)
}

// debounceFor is how long there must be no event before a reading. The last reading waited for before. pause is the time
// since the last write, without that of the reading. A single write waits for one debounce. For a program that writes
// again and again the wait doubles up to 8 debounces (400 ms), which bounds the rate of syncs. If the pause was longer
// than that, no wait joins the two writes in one sync, so the change is read after one debounce.
func debounceFor(debounce, before, pause time.Duration) time.Duration {
	if pause > 8*debounce {
		return debounce
	}
	return min(2*before, 8*debounce)
}

// wait returns after f.delay without an event. A save causes many events, and a reading in between them would
// see half a file. It returns after 20 debounces at most.
func (f *follower) wait(ctx context.Context, reloads <-chan chan<- error) (reload chan<- error, err error) {
	quiet, limit := time.NewTimer(f.delay), time.NewTimer(20*f.o.Debounce)
	defer quiet.Stop()
	defer limit.Stop()
	f.limited = false
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case reload := <-reloads:
			return reload, nil
		case <-quiet.C:
			return nil, nil
		case <-limit.C:
			f.limited = true
			return nil, nil
		case e := <-f.changes():
			if f.note(e) {
				quiet.Reset(f.delay)
			}
		case err := <-f.faults():
			f.fault(err)
		}
	}
}

// untilClosed returns when no file is open for writing, or after f.delay.
func (f *follower) untilClosed(ctx context.Context) error {
	limit := time.NewTimer(f.delay)
	defer limit.Stop()
	for f.store.writing() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			return nil
		case e := <-f.changes():
			f.note(e)
		case err := <-f.faults():
			f.fault(err)
		}
	}
	return nil
}

// pause is the time until the next action that needs no event: to read a file that was being written or that could
// not be read, to watch again, or to look for a mount.
func (f *follower) pause() time.Duration {
	next, now := f.store.next(), f.store.now()
	if f.o.Watch && (f.watcher == nil || len(f.unwatched) > 0) && (next.IsZero() || f.retry.Before(next)) {
		next = f.retry
	}
	if f.awaitsMount() && (next.IsZero() || f.mountsAt.Before(next)) {
		next = f.mountsAt
	}
	if next.IsZero() {
		return time.Hour
	}
	return max(0, next.Sub(now))
}

// logWarnings logs the warnings about what is served, each once while it lasts.
func (f *follower) logWarnings() {
	if !f.store.newWarnings {
		return
	}
	f.store.newWarnings = false
	logged := map[string]bool{}
	var lines []string
	for _, w := range f.store.allWarnings() {
		line := w.Error()
		lines = append(lines, line)
		if logged[line] = true; !f.logged[line] {
			f.o.Log.Warn(line)
		}
	}
	f.logged = logged
	f.warnings.Store(&lines)
}

package file

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
)

// follower is one run of a Source: its watches and what it has read. Only the goroutine of Watch uses it.
type follower struct {
	o       Options
	now     func() time.Time
	guard   *guard
	listing *listing
	saver   *saver            // nil without Options.Keep
	watcher *fsnotify.Watcher // nil when not watching

	names  map[string]bool // real paths that had events since the last reading
	relist bool            // the names do not cover all that may have changed
	seen   time.Time       // when the first of these events came; zero: there was none
	waited time.Time       // since when the last reading's longest accepted change had waited; zero: none had
	pace   pace            // of readings
	heard  pace            // of events

	unwatched map[string]bool // directories that cannot be watched
	retry     time.Time       // when to try to watch again
	mountsAt  time.Time       // when to look for mounts again

	logged   map[string]bool           // warnings
	warnings *atomic.Pointer[[]string] // the Source's
	progress *progress                 // likewise

	stats, reads int // stat calls and files read: the cost of a reading
}

func (s *Source) follow() *follower {
	f := &follower{
		o: s.o, now: time.Now, guard: newGuard(waits{s.o.Debounce, s.o.quiet, fileTick()}, s.o.Lists),
		names:     map[string]bool{},
		unwatched: map[string]bool{}, logged: map[string]bool{}, warnings: &s.warnings, progress: &s.progress,
	}
	if s.o.Keep != "" {
		f.guard.backups = openBackups(s.o.Keep, s.o.Log)
		f.saver = newSaver(s.o.Keep, s.o.Keeper, s.o.Log)
		for dir, point := range f.saver.points {
			f.guard.mounts[dir] = mount{point: point}
		}
	}
	f.mountsAt = f.now().Add(f.o.remount)
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
		f.watcher.Close()
	}
}

// first is the first reading. The content that earlier runs kept replaces that of refused files, and of files in a
// directory that is missing, that is no longer mounted or that cannot be listed. Kept content of files that have left
// is deleted.
func (f *follower) first() {
	f.read(scope{all: true})
	g := f.guard
	defer func() { g.starting, g.backups = false, nil }()
	if g.backups == nil {
		return
	}
	for _, path := range g.backups.others(g.files) {
		if f.listing.mayHold(path) {
			if g.file(path).served != nil && f.listing.named[path] {
				g.take(path, look{absent: true, named: true}, true, f.now())
			}
		} else {
			g.unsaved[path] = nil
		}
	}
	g.directories(f.listing, f.now())
	f.logWarnings()
}

// save has the copies on disk follow what is served.
func (f *follower) save() {
	if copies := f.guard.takeUnsaved(); f.saver != nil {
		f.saver.save(copies, f.guard.mountPoints())
	}
}

// scope says which files to read, and how carefully.
type scope struct {
	all   bool // also those whose size and times have not changed
	asked bool // a Reload asks for the present content: do not wait for the end of a write

	only string // this file alone, as if asked for; "" = not so
}

// read looks at what may have changed, or at everything, and reports whether the outcome changed. If the events name
// all that changed, it looks at those files alone, so an edit costs as much as the edited file.
func (f *follower) read(sc scope) (changed bool) {
	at, g := f.now(), f.guard
	if sc.only != "" {
		f.list()
		now, news := f.look(sc.only, true)
		return news && g.take(sc.only, now, true, at)
	}
	f.pace = f.pace.read(at, f.o.Debounce)
	paths, ok := f.concerned(at)
	if sc.all || !ok {
		f.list()
		f.listing.elsewhere = f.listing.lostMounts(g.mounts)
		paths = f.everything()
	}
	f.names, f.relist, f.seen, f.waited = map[string]bool{}, false, time.Time{}, time.Time{}
	refused, left := 0, false
	for i, path := range paths {
		if now, news := f.look(path, sc.all); news {
			left = left || now.absent && !now.named && g.pending[path].since.IsZero()
			since := g.pending[path].since
			if g.take(path, now, sc.asked, at) {
				changed = true
				if !since.IsZero() && (f.waited.IsZero() || since.Before(f.waited)) {
					f.waited = since
				}
			}
			if f := g.files[path]; f != nil && len(f.problems) > 0 {
				refused += len(now.content.Data)
			}
		}
		f.progress.set(i+1, len(paths))
	}
	if left {
		g.leaving(at)
	}
	if sc.all || !ok {
		changed = g.directories(f.listing, at) || changed
	}
	f.logWarnings()
	if refused >= large {
		debug.FreeOSMemory()
	}
	return changed
}

// large is the size of refused files, in bytes, that is worth a garbage collection. Parsing takes up to 20
// times the memory of the text. After an accepted change the daemon returns memory at the end of the sync; a
// refused one has no sync.
const large = 1 << 20

// dirty reports whether something may have changed since the last reading.
func (f *follower) dirty() bool { return len(f.names) > 0 || f.relist }

// concerned updates the listing with the names that had events and returns the files to look at. It returns false if
// everything must be listed again.
func (f *follower) concerned(at time.Time) (files []string, ok bool) {
	if f.listing == nil || f.relist || len(f.listing.elsewhere) > 0 {
		return nil, false // a file elsewhere ends the wait for the mount
	}
	for _, path := range f.guard.due(at) {
		if f.guard.files[path] == nil || f.guard.pending[path].now.absent {
			return nil, false // a directory, or a file whose directory may be gone by now
		}
		files = append(files, path)
	}
	for name := range f.names {
		more, ok := f.listing.refresh(name)
		if !ok {
			return nil, false
		}
		files = append(files, more...)
	}
	slices.Sort(files)
	return slices.Compact(files), true
}

// everything are all files that are listed, named or known.
func (f *follower) everything() []string {
	all := slices.Concat(f.guard.paths(), f.listing.files, f.listing.missing)
	slices.Sort(all)
	return slices.Compact(all)
}

// look looks at one file. news is false if it is as it was judged.
func (f *follower) look(path string, all bool) (now look, news bool) {
	known := f.guard.files[path]
	if _, listed := slices.BinarySearch(f.listing.files, path); !listed {
		return f.unlisted(path, known)
	}
	f.stats++
	if id, err := identify(path); err == nil && !all && known != nil {
		_, waits := f.guard.pending[path]
		if judged := known.judged; !waits && judged.sure && judged.id == id {
			return now, false
		}
	}
	f.reads++
	now = read(path)
	now.sure = now.err == nil && now.id.sure(f.now())
	if errors.Is(now.err, fs.ErrNotExist) {
		_, err := os.Lstat(path) // it was removed since, or is a link to nothing
		now.absent, now.named = err != nil, f.listing.named[path]
	}
	return now, true
}

// unlisted is look for a path that was not found. A file that was never good is not missed if another source has the
// services.
func (f *follower) unlisted(path string, known *file) (now look, news bool) {
	good, named := known != nil && known.served != nil, f.listing.named[path]
	if !good && f.o.Optional {
		named = false
	}
	if good && !named && f.listing.mayHold(path) {
		return look{hidden: true}, true
	}
	return look{absent: true, named: named}, known != nil || named
}

// logWarnings logs the warnings about what is served, each once while it lasts.
func (f *follower) logWarnings() {
	logged := map[string]bool{}
	var lines []string
	for _, w := range f.guard.warnings() {
		line := w.Error()
		lines = append(lines, line)
		if logged[line] = true; !f.logged[line] {
			f.o.Log.Warn(line)
		}
	}
	f.logged = logged
	f.warnings.Store(&lines)
}

// await waits until the next reading is due. It returns false when ctx ends.
func (f *follower) await(ctx context.Context, resync <-chan time.Time, reloads <-chan reload) (round, bool) {
	for {
		timer := time.NewTimer(f.pause())
		r, ok, err := f.next(ctx, timer.C, resync, reloads)
		timer.Stop()
		if ok || err != nil {
			return r, err == nil
		}
	}
}

// next waits for one event, timer or reload, and reports whether to read files now.
func (f *follower) next(
	ctx context.Context, timer, resync <-chan time.Time, reloads <-chan reload,
) (r round, ok bool, err error) {
	select {
	case <-ctx.Done():
		return r, false, ctx.Err()
	case <-resync:
		f.rewatch(true)
		return round{scope: scope{all: true}}, true, nil
	case r := <-reloads:
		if r.path != "" {
			return round{scope{only: r.path}, f.now(), r.done}, true, nil
		}
		f.rewatch(true)
		return round{scope{all: true, asked: true}, f.now(), r.done}, true, nil
	case e := <-f.changes():
		f.hear(e)
	case err := <-f.faults():
		f.fault(err)
	case <-timer:
		f.rewatch(false)
		f.remount(f.now())
	}
	r.seen = f.seen
	return r, !f.wake().After(f.now()), nil
}

// note has the name of an event looked at, if it concerns a listed path.
func (f *follower) note(e fsnotify.Event) {
	if !f.listing.concerns(e.Name) {
		return
	}
	if !f.dirty() {
		f.seen = f.now()
	}
	f.names[e.Name] = true
}

// wake is when to read files next, if nothing more happens; far in the future if never. The first looks at what is
// pending come without regard to the pace: a file that was renamed over another waits for a few milliseconds.
func (f *follower) wake() time.Time {
	next, pace := f.guard.next(), f.pace.next()
	switch {
	case f.dirty():
		return pace
	case next.IsZero():
		return f.now().Add(time.Hour)
	case next.Before(pace) && f.pace.gap > 2*f.o.Debounce:
		return pace
	}
	return next
}

// pause is the time until the next action that needs no event: to read, to watch again, or to look for a mount.
func (f *follower) pause() time.Duration {
	next := f.wake()
	if listen := f.listen(); listen.After(f.now()) && listen.Before(next) {
		next = listen // changes has events again
	}
	if f.o.Watch && (f.watcher == nil || len(f.unwatched) > 0) && f.retry.Before(next) {
		next = f.retry
	}
	if f.awaitsMount() && f.mountsAt.Before(next) {
		next = f.mountsAt
	}
	return max(0, next.Sub(f.now()))
}

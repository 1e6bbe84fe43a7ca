package file

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
)

// follower is one run of a Source: its watches, and what it has read so far. Only the goroutine that
// runs Watch uses it.
type follower struct {
	o       Options
	shelf   *shelf
	listing *listing
	keeper  *keeper           // nil when nothing is kept
	watcher *fsnotify.Watcher // nil when not watching
	calm    time.Duration     // how long it must be quiet before the next reading
	last    time.Time         // when the last reading ended
	dead    map[string]bool   // directories whose failure to be watched was logged
	told    map[string]bool   // warnings that were logged

	warnings *atomic.Pointer[[]string] // the Source's
}

func (s *Source) follow() *follower {
	f := &follower{
		o:     s.o,
		shelf: newShelf(s.o.Host),
		calm:  s.o.Debounce,
		dead:  map[string]bool{},
		told:  map[string]bool{},

		warnings: &s.warnings,
	}
	if s.o.Keep != "" {
		f.shelf.stored = open(s.o.Keep, s.o.Log)
		f.keeper = newKeeper(s.o.Keep, s.o.Log)
	}
	f.shelf.optional = s.o.Optional
	if s.o.Watch {
		var err error
		if f.watcher, err = fsnotify.NewWatcher(); err != nil {
			// The limit on inotify instances is per user and often small. Files still change, later.
			f.o.Log.Warn("cannot watch service files: changes are seen only when everything is read again",
				slog.Any("err", err), slog.Duration("every", s.o.Resync))
		}
	}
	return f
}

func (f *follower) close() {
	if f.keeper != nil {
		f.keeper.close()
	}
	if f.watcher != nil {
		f.watcher.Close()
	}
}

// first is the first read. What earlier runs kept stands in for what is refused, and for what may be in a
// directory that cannot be listed; what they kept of files that have left since is of no use any more.
func (f *follower) first(ctx context.Context) error {
	if _, err := f.read(ctx); err != nil {
		return err
	}
	s := f.shelf
	defer func() { s.starting, s.stored = false, nil }()
	if s.stored == nil {
		return nil
	}
	for _, path := range s.stored.names {
		switch {
		case s.records[path] != nil:
		case f.listing.mayHold(path):
			s.record(path, f.listing)
		default:
			s.fresh[path] = nil
		}
	}
	return nil
}

// keep has the disk follow what is served.
func (f *follower) keep() {
	if news := f.shelf.news(); f.keeper != nil {
		f.keeper.keep(news)
	}
}

// read lists and reads everything, again for as long as something is being written, within bounds. It
// says whether the outcome is another one; the error is ctx's.
func (f *follower) read(ctx context.Context) (changed bool, err error) {
	// At most 3 waits of at most 20 times the debounce: a log file given by mistake delays the others by
	// 3 seconds, and does not stop them.
	const tries = 3
	for try := 0; ; try++ {
		f.listing = list(f.o.Paths, f.watch)
		f.unwatch()
		news, writing := f.shelf.update(f.listing)
		changed = changed || news
		if len(writing) == 0 {
			break
		}
		if try == tries {
			changed = f.shelf.giveUp(writing, f.listing) || changed
			break
		}
		if err := f.quiet(ctx); err != nil {
			return false, err
		}
	}
	f.tell()
	f.last = time.Now()
	return changed, nil
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

// quiet waits until nothing of interest has happened for a while: a save is many events, and what is read
// in the middle of one is half a file. A stream of events that does not end is cut off.
func (f *follower) quiet(ctx context.Context) error {
	_, err := f.wait(ctx, nil)
	return err
}

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
			if f.listing.concerns(e.Name) {
				calm.Reset(f.calm)
			}
		case err := <-f.faults():
			f.fault(err)
		}
	}
}

// changes are what happens in the watched directories; nothing when not watching.
func (f *follower) changes() <-chan fsnotify.Event {
	if f.watcher == nil {
		return nil
	}
	return f.watcher.Events
}

func (f *follower) faults() <-chan error {
	if f.watcher == nil {
		return nil
	}
	return f.watcher.Errors
}

// fault logs what went wrong with watching. Events that the kernel had to drop cost nothing here:
// whatever they were, everything is read again.
func (f *follower) fault(err error) {
	if !errors.Is(err, fsnotify.ErrEventOverflow) {
		f.o.Log.Warn("watching service files", slog.Any("err", err))
	}
}

// watch is called for each directory of a listing, each time: the directory behind a name may be
// another one by now, and for one that is watched already it is one system call.
func (f *follower) watch(dir string) {
	if f.watcher == nil {
		return
	}
	err := f.watcher.Add(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !f.dead[dir] {
		f.dead[dir] = true
		f.o.Log.Warn("cannot watch a directory: changes in it are seen only when everything is read again",
			slog.String("dir", dir), slog.Any("err", err), slog.Duration("every", f.o.Resync))
	}
}

// unwatch ends the watches of directories that paths no longer lead through.
func (f *follower) unwatch() {
	if f.watcher == nil {
		return
	}
	for _, dir := range f.watcher.WatchList() {
		if f.listing.dirs[dir] == nil {
			_ = f.watcher.Remove(dir) // fails only if the directory is gone, and the watch with it
		}
	}
}

// tell logs the warnings about what is served, each once for as long as it holds.
func (f *follower) tell() {
	told := map[string]bool{}
	var lines []string
	for _, w := range f.shelf.doubts() {
		line := w.Error()
		if !told[line] {
			lines = append(lines, line)
		}
		if told[line] = true; !f.told[line] {
			f.o.Log.Warn(line)
		}
	}
	f.told = told
	f.warnings.Store(&lines)
}

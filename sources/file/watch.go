package file

import (
	"errors"
	"io/fs"
	"log/slog"
	"time"
)

// changes are the events of the watched directories; nil when not watching.
func (f *follower) changes() <-chan event {
	if f.watcher == nil {
		return nil
	}
	return f.watcher.events
}

func (f *follower) faults() <-chan error {
	if f.watcher == nil {
		return nil
	}
	return f.watcher.errs
}

// fault handles an error of the watcher. After events that the kernel dropped, everything is listed again.
func (f *follower) fault(err error) {
	f.relist = true
	if !errors.Is(err, errOverflow) {
		f.o.Log.Warn("watching service files", slog.Any("err", err))
	}
}

// rewatchAfter is the time from a failure to watch to the next try.
const rewatchAfter = time.Minute

// startWatcher makes an inotify instance. Their number is limited per user and often small. Without one, changes
// are seen at the next resync.
func (f *follower) startWatcher() {
	watcher, err := newWatcher()
	f.retry = f.store.now().Add(rewatchAfter)
	switch {
	case err != nil && f.watchErr == nil:
		f.o.Log.Warn("cannot watch service files: changes are seen only when everything is read again",
			slog.Any("err", err), slog.Duration("every", f.o.Resync))
	case err == nil && f.watchErr != nil:
		f.o.Log.Info("service files are watched again")
	}
	f.watchErr = err
	if err == nil {
		f.watcher, f.relist = watcher, true
	}
}

// rewatch tries to watch what could not be watched, if that is due or now is set.
func (f *follower) rewatch(now bool) {
	switch {
	case !f.o.Watch || !now && f.store.now().Before(f.retry):
	case f.watcher == nil:
		f.startWatcher()
	case len(f.unwatched) > 0:
		f.retry, f.relist = f.store.now().Add(rewatchAfter), true
	}
}

// watch is called for each directory of each listing, because the directory behind a name may have been
// replaced. For one that is already watched it costs one system call.
func (f *follower) watch(dir string) {
	if f.watcher == nil {
		return
	}
	err := f.watcher.add(dir)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		delete(f.unwatched, dir)
		return
	}
	if f.unwatched[dir] == nil {
		f.retry = f.store.now().Add(rewatchAfter)
		f.o.Log.Warn("cannot watch a directory: changes in it are seen only when everything is read again",
			slog.String("dir", dir), slog.Any("err", err), slog.Duration("every", f.o.Resync))
	}
	f.unwatched[dir] = err
}

// unwatch ends the watches of directories that no path leads through any more.
func (f *follower) unwatch() {
	for dir := range f.unwatched {
		if f.listing.dirs[dir] == nil {
			delete(f.unwatched, dir)
		}
	}
	if f.watcher != nil {
		f.watcher.keep(func(dir string) bool { return f.listing.dirs[dir] != nil })
	}
}

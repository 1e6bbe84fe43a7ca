package file

import (
	"errors"
	"io/fs"
	"log/slog"
	"time"
)

// changes are what happens in the watched directories; nothing when not watching.
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

// fault logs what went wrong with watching. Events that the kernel had to drop cost only that everything is
// listed again.
func (f *follower) fault(err error) {
	f.relist = true
	if !errors.Is(err, errOverflow) {
		f.o.Log.Warn("watching service files", slog.Any("err", err))
	}
}

// rewatch is how long after a failure to watch it is tried again.
const rewatch = time.Minute

// begin has an inotify instance made. Their number is limited by user and often small: without one, files
// change all the same, and are read later.
func (f *follower) begin() {
	watcher, err := newWatcher()
	f.retry = f.shelf.now().Add(rewatch)
	switch {
	case err != nil && f.blind == nil:
		f.o.Log.Warn("cannot watch service files: changes are seen only when everything is read again",
			slog.Any("err", err), slog.Duration("every", f.o.Resync))
	case err == nil && f.blind != nil:
		f.o.Log.Info("service files are watched again")
	}
	f.blind = err
	if err == nil {
		f.watcher, f.relist = watcher, true
	}
}

// again tries to watch what could not be watched so far, when it is time.
func (f *follower) again(now bool) {
	switch {
	case !f.o.Watch || !now && f.shelf.now().Before(f.retry):
	case f.watcher == nil:
		f.begin()
	case len(f.dead) > 0:
		f.retry, f.relist = f.shelf.now().Add(rewatch), true
	}
}

// watch is called for each directory of a listing, each time: the directory behind a name may be
// another one by now, and for one that is watched already it is one system call.
func (f *follower) watch(dir string) {
	if f.watcher == nil {
		return
	}
	err := f.watcher.add(dir)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		delete(f.dead, dir)
		return
	}
	if f.dead[dir] == nil {
		f.retry = f.shelf.now().Add(rewatch)
		f.o.Log.Warn("cannot watch a directory: changes in it are seen only when everything is read again",
			slog.String("dir", dir), slog.Any("err", err), slog.Duration("every", f.o.Resync))
	}
	f.dead[dir] = err
}

// unwatch ends the watches of directories that paths no longer lead through.
func (f *follower) unwatch() {
	for dir := range f.dead {
		if f.listing.dirs[dir] == nil {
			delete(f.dead, dir)
		}
	}
	if f.watcher != nil {
		f.watcher.keep(func(dir string) bool { return f.listing.dirs[dir] != nil })
	}
}

package file

import (
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// An event says that there is something to look at, never what happened: its kind is not read. So an event that is
// lost, late or doubled costs at most a look, and a look that no event asks for comes to the same.

// changes are the events of the watched directories; nil when not watching. After some, the next ones stay in the
// kernel for a while, where they cost nothing: to be woken for each of a thousand a second takes a fifth of a
// processor.
func (f *follower) changes() <-chan fsnotify.Event {
	if f.watcher == nil || f.now().Before(f.listen()) {
		return nil
	}
	return f.watcher.Events
}

// listen is from when on changes has events: when they may have files read, and 1 to 8 ms after others.
func (f *follower) listen() time.Time {
	if heard := f.heard.next(); heard.After(f.pace.next()) {
		return heard
	}
	return f.pace.next()
}

// hear notes an event, and in a series all others that have come, so that one reading is for all of them.
func (f *follower) hear(e fsnotify.Event) {
	f.note(e)
	if f.heard.series(f.now(), time.Millisecond) || f.pace.series(f.now(), f.o.Debounce) {
		for over := time.After(time.Millisecond); over != nil; {
			select {
			case e := <-f.watcher.Events:
				f.note(e)
			case <-over:
				over = nil
			}
		}
	}
	f.heard = f.heard.read(f.now(), time.Millisecond)
}

func (f *follower) faults() <-chan error {
	if f.watcher == nil {
		return nil
	}
	return f.watcher.Errors
}

// fault handles an error of the watcher. After events that the kernel dropped, everything is listed again. Any other
// error ends the watcher, and rewatch makes another one.
func (f *follower) fault(err error) {
	f.relist = true
	if !errors.Is(err, fsnotify.ErrEventOverflow) {
		f.watcher.Close()
		f.watcher = nil
		f.noWatcher(err)
	}
}

// RewatchAfter is the time from a failure to watch to the next try. What is not watched is listed that often.
const RewatchAfter = 10 * time.Second

// startWatcher makes an inotify instance. Their number is limited per user and often small
// (fs.inotify.max_user_instances, 128 by default).
func (f *follower) startWatcher() {
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		f.watcher = watcher
	}
	f.relist = true
	f.noWatcher(err)
}

// noWatcher notes why there is no watcher; nil if there is one.
func (f *follower) noWatcher(err error) {
	f.retry = f.now().Add(f.o.rewatch)
	f.o.Unwatched(strings.Join(f.o.Paths, ", "), err)
}

// rewatch tries to watch what could not be watched, if that is due or now is set.
func (f *follower) rewatch(now bool) {
	switch {
	case !f.o.Watch || !now && f.now().Before(f.retry):
	case f.watcher == nil:
		f.startWatcher()
	case len(f.unwatched) > 0:
		f.retry, f.relist = f.now().Add(f.o.rewatch), true
	}
}

// list lists everything again, and watches the directories of it alone.
func (f *follower) list() {
	for range 2 {
		f.listing = list(f.o.Paths, f.o.Literal, f.o.Lists, f.watch)
		if !f.unwatch() {
			return
		}
		// A directory that was moved has one watch, under its former name. That has ended, so watch it again.
	}
}

// watch is called for each directory of each listing, because the directory behind a name may have been
// replaced. For one that is already watched it costs one system call.
func (f *follower) watch(dir string) {
	if f.watcher == nil {
		return
	}
	err := f.watcher.Add(dir)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		f.watched(dir)
		return
	}
	if !f.unwatched[dir] {
		f.retry = f.now().Add(f.o.rewatch)
	}
	f.unwatched[dir] = true
	f.o.Unwatched(dir, err)
}

// watched says that a directory is watched, or is no more.
func (f *follower) watched(dir string) {
	if f.unwatched[dir] {
		delete(f.unwatched, dir)
		f.o.Unwatched(dir, nil)
	}
}

// unwatch ends the watches of directories that no path leads through any more, and reports whether there were any.
func (f *follower) unwatch() (some bool) {
	for dir := range f.unwatched {
		if f.listing.dirs[dir] == nil {
			f.watched(dir)
		}
	}
	if f.watcher == nil {
		return false
	}
	for _, dir := range f.watcher.WatchList() {
		if f.listing.dirs[dir] == nil {
			_ = f.watcher.Remove(dir) // it fails if the directory is gone
			some = true
		}
	}
	return some
}

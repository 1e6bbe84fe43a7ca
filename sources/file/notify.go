package file

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Read tries readTries times to read a file that is being written, with readPause in between. A program takes a
// few milliseconds to save a file.
const (
	readTries = 20
	readPause = 25 * time.Millisecond
)

// Read returns the content of a regular file that is not being written. It waits up to half a second for a
// writer to finish, and never for a FIFO or a device.
func Read(path string) (Content, error) {
	for try := 1; ; try++ {
		c, _, err := read(path)
		if !errors.Is(err, errChanging) || try == readTries {
			if err != nil {
				return c, fmt.Errorf("%s: %w", path, cause(err))
			}
			return c, nil
		}
		time.Sleep(readPause)
	}
}

// Notify calls changed once when it has begun to watch, and after each burst of changes that may concern a path.
// Such a change is a write, a rename over it, or a change of a link or directory on the way. It returns when ctx
// ends. What it cannot watch it says as Options.Unwatched does, and calls changed every 10 s meanwhile.
func Notify(ctx context.Context, path string, debounce time.Duration, unwatched func(string, error), changed func()) error {
	s, err := New(Options{Paths: []string{path}, Literal: true, Watch: true, Debounce: debounce, Unwatched: unwatched})
	if err != nil {
		return err
	}
	f := s.follow()
	defer f.close()
	f.list()
	changed()
	size := f.size()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-f.changes():
			if !f.note(e) {
				continue
			}
			if f.written(ctx, size) != nil {
				return nil
			}
		case err := <-f.faults():
			f.fault(err)
		case <-time.After(f.pause()):
			f.rewatch(false)
			f.remount()
			if !f.relist {
				continue
			}
		}
		f.list()
		changed()
		size = f.size()
	}
}

// list lists the one path again.
func (f *follower) list() {
	f.listing = list(f.o.Paths, f.o.Literal, f.watch)
	f.unwatch()
	f.relist = false
	clear(f.names)
	clear(f.store.touched)
}

// size is the size of the one file in bytes; 0 if it is missing.
func (f *follower) size() int64 {
	id, _ := identify(f.o.Paths[0])
	return id.size
}

// written waits for the end of a burst of changes. Like a Source, it waits longer for a file that is open for
// writing, or that lost more than a third of its size and was not renamed over the old one.
func (f *follower) written(ctx context.Context, size int64) error {
	for begin := f.store.now(); ; {
		if _, err := f.wait(ctx, nil); err != nil {
			return err
		}
		t, now := f.store.touched[f.o.Paths[0]], f.store.now()
		if t == nil || !t.open && (t.over || 3*f.size() >= 2*size) || now.Sub(t.at) >= f.store.quiet || now.Sub(begin) > maxWait {
			return nil
		}
	}
}

package file

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// readTries is how often Read looks again at a file that is being written, and readPause how long it
// waits in between: a program that saves takes a few milliseconds.
const (
	readTries = 20
	readPause = 25 * time.Millisecond
)

// Read gives the content of a regular file as it is when nobody writes it. It waits half a second at
// most for a writer to end, and never for a FIFO or a device.
func Read(path string) ([]byte, error) {
	for try := 1; ; try++ {
		data, _, err := read(path)
		if !errors.Is(err, errChanging) || try == readTries {
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, cause(err))
			}
			return data, nil
		}
		time.Sleep(readPause)
	}
}

// Notify calls changed when it has begun to watch, so that nothing before is missed, and after each burst
// of changes that could be to what a path leads to: a write, a rename over it, a link or a directory on
// the way. It returns when ctx ends. What cannot be watched is logged.
func Notify(ctx context.Context, path string, debounce time.Duration, log *slog.Logger, changed func()) error {
	s, err := New(Options{Paths: []string{path}, Watch: true, Debounce: debounce, Log: log})
	if err != nil {
		return err
	}
	f := s.follow()
	defer f.close()
	f.look()
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
			f.again(false)
			if !f.relist {
				continue
			}
		}
		f.look()
		changed()
		size = f.size()
	}
}

// look lists the one path again.
func (f *follower) look() {
	f.listing = list(f.o.Paths, f.watch)
	f.unwatch()
	f.relist = false
	clear(f.names)
	clear(f.shelf.touched)
}

// size is that of the one file; 0 if it is not there.
func (f *follower) size() int64 {
	id, _ := identify(f.o.Paths[0])
	return id.size
}

// written waits for the end of the changes that have begun: for a file that is open for writing, or has lost
// more than a third and was not renamed over the old one, as a Source does.
func (f *follower) written(ctx context.Context, size int64) error {
	for begin := f.shelf.now(); ; {
		if _, err := f.wait(ctx, nil); err != nil {
			return err
		}
		t, now := f.shelf.touched[f.o.Paths[0]], f.shelf.now()
		if t == nil || !t.open && (t.over || 3*f.size() >= 2*size) || now.Sub(t.at) >= f.shelf.quiet || now.Sub(begin) > most {
			return nil
		}
	}
}

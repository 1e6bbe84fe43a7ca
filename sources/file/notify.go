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
		data, err := read(path)
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
	for first := true; ; first = false {
		f.listing = list(f.o.Paths, f.watch)
		f.unwatch()
		if first {
			changed()
		}
		select {
		case <-ctx.Done():
			return nil
		case e := <-f.changes():
			if !f.listing.concerns(e.Name) {
				continue
			}
			if f.quiet(ctx) != nil {
				return nil
			}
			changed()
		case err := <-f.faults():
			f.fault(err)
			changed()
		}
	}
}

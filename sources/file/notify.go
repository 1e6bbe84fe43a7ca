package file

import (
	"context"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Notify calls changed once when it has begun to watch, and each time when one file has changed. Such a change is a
// write, a rename over it, or a change of a link or directory on the way. What was renamed over the file is told at
// once. What was written in place is not read here, so it may be half a file: that is told when the file was quiet for
// a second. It returns when ctx ends. What it cannot watch it says as Options.Unwatched does, and looks every 10 s
// meanwhile.
func Notify(
	ctx context.Context, path string, debounce time.Duration, unwatched func(string, error), changed func(),
) error {
	s, err := New(Options{Paths: []string{path}, Literal: true, Watch: true, Debounce: debounce, Unwatched: unwatched})
	if err != nil {
		return err
	}
	f := s.follow()
	defer f.close()
	f.list()
	path, p := f.o.Paths[0], pending{}
	told := glance(path, f.now())
	changed()
	for {
		f.names, f.relist = map[string]bool{}, false
		if _, ok := f.await(ctx, nil, nil); !ok {
			return nil
		}
		at := f.now()
		f.pace = f.pace.read(at, f.o.Debounce)
		f.list()
		now := glance(path, at)
		p = p.seen(now, at, f.guard.tick)
		p.verdict = verdict{action: hold, until: p.until(f.o.quiet, maxWait)}
		if now.replaces(told) {
			p.verdict.until = p.over(at, f.guard.tick)
		}
		switch {
		case now.id == told.id && told.sure:
			p = pending{}
		case !at.Before(p.verdict.until):
			p, told = pending{}, now
			changed()
		}
		f.guard.pending[path] = p
	}
}

// glance is a look at a file that does not read it.
func glance(path string, at time.Time) (now look) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		real = path // a link to nothing, or no file
	}
	st, err := stat(unix.AT_FDCWD, real, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return look{sure: true}
	}
	dir, _ := identify(filepath.Dir(real))
	now = look{id: identityOf(st), real: real, renamed: dir.written}
	now.sure = now.id.sure(at)
	return now
}

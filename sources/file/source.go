package file

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// Options say which files a Source follows, and how.
type Options struct {
	Paths    []string      // names and globs (filepath.Match's syntax); a name that is missing is a problem, a glob that finds nothing is not
	Optional bool          // a name that was never there is no problem either: another source has the services
	Watch    bool          // follow changes as they happen, not only at Resync and Reload
	Debounce time.Duration // how long it must be quiet before files are read, up to 8 times that when changes follow each other; 0 = 50 ms
	Resync   time.Duration // how often everything is read again, whatever was noticed; 0 = never

	// Keep is a directory for the last good content of each file, which the next start goes on with where a
	// file is refused; "" = none. What cannot be written there is a warning.
	Keep string

	// quiet is how long nothing must have happened to a file that is waited for; 0 = 2 s.
	quiet time.Duration

	Log *slog.Logger // for warnings and what cannot be watched; nil = none
}

// Source follows files of services. What it emits is the last good content of each of them, joined in
// order of path (sources.Merge decides between services that want the same); an error beside the table is a *sources.RejectedError and names each problem of each
// file whose present content is not in it.
type Source struct {
	o        Options
	reloads  chan chan<- error
	warnings atomic.Pointer[[]string] // about what was emitted last

	progress progress // of the first reading
	told     notices
}

// Warnings are about what is served of the files, one line each. It may be called from any goroutine.
func (s *Source) Warnings() []string {
	if w := s.warnings.Load(); w != nil {
		return *w
	}
	return nil
}

// Progress says how many files were read of how many, while they are read all.
func (s *Source) Progress() (done, of int) { return s.progress.get() }

// Notices are what should be known of the files and is no fault of theirs: which are waited for, and what
// cannot be watched. It may be called from any goroutine.
func (s *Source) Notices() []string { return s.told.Load() }

// New makes a Source; relative paths are taken from the working directory now.
func New(o Options) (*Source, error) {
	paths, err := absolute(o.Paths)
	if err != nil {
		return nil, err
	}
	o.Paths = paths
	if o.Debounce == 0 {
		o.Debounce = 50 * time.Millisecond
	}
	if o.quiet == 0 {
		o.quiet = quiet
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Source{o: o, reloads: make(chan chan<- error)}, nil
}

func absolute(paths []string) ([]string, error) {
	all := make([]string, 0, len(paths))
	for _, p := range paths {
		if _, err := filepath.Match(p, ""); err != nil {
			return nil, fmt.Errorf("services path %q: %w", p, err)
		}
		abs, err := filepath.Abs(p)
		if err != nil {
			return nil, fmt.Errorf("services path %q: %w", p, err)
		}
		all = append(all, abs)
	}
	return all, nil
}

// Load reads the files once, for a check: problems are all that would be refused. What was kept of them is
// read and not written: a file that had services and is empty is refused for that.
func Load(ctx context.Context, o Options) (t sources.Table, warnings, problems []sources.Problem, err error) {
	kept := o.Keep
	o.Watch, o.Keep = false, ""
	s, err := New(o)
	if err != nil {
		return sources.Table{}, nil, nil, err
	}
	f := s.follow()
	defer f.close()
	f.shelf.checking = true
	if kept != "" {
		f.shelf.stored = open(kept, s.o.Log)
	}
	for try := 0; ; try++ {
		f.read(manner{every: true, asked: true})
		if len(f.shelf.waits) == 0 {
			break
		}
		if try == readTries {
			f.shelf.giveUp()
			break
		}
		select {
		case <-ctx.Done():
			return sources.Table{}, nil, nil, ctx.Err()
		case <-time.After(readPause):
		}
	}
	t, rejected := f.shelf.outcome()
	if r, ok := rejected.(*sources.RejectedError); ok {
		problems = r.Problems
	}
	return t, f.shelf.doubts(), problems, nil
}

// Watch reads the files, emits their table, and goes on doing so as they change. A file that is refused or
// missing at the first read starts with the content that was kept of it. Where none was, it is left out
// until it is mended; whether that leaves anything to run for, RejectedError.Nothing says. While a named
// file is missing that nothing was kept of, what is emitted is marked Incomplete.
func (s *Source) Watch(ctx context.Context, emit func(sources.Table, error)) error {
	f := s.follow()
	defer f.close()
	f.first()
	s.tell(f.notices())
	emit(f.shelf.outcome())
	f.keep()

	var resync <-chan time.Time
	if s.o.Resync > 0 {
		t := time.NewTicker(s.o.Resync)
		defer t.Stop()
		resync = t.C
	}
	for {
		round, ok := f.await(ctx, resync, s.reloads)
		if !ok {
			return nil
		}
		changed := f.read(round.manner)
		table, rejected := f.shelf.outcome()
		s.tell(f.notices())
		if changed {
			table.Seen = round.seen
			emit(table, rejected)
		}
		f.keep()
		if round.reload != nil {
			round.reload <- f.shelf.answer(rejected)
		}
	}
}

// tell makes notices known, and logs those that are new. What cannot be watched is logged where that is found.
func (s *Source) tell(lines []string) {
	before := s.told.Load()
	for _, line := range lines {
		if !slices.Contains(before, line) && !strings.Contains(line, "not watched") {
			s.o.Log.Info("waiting", slog.String("file", line))
		}
	}
	s.told.Store(lines)
}

// round is why files are read, and how.
type round struct {
	manner manner
	seen   time.Time    // when that was noticed; zero if nothing was
	reload chan<- error // who asked; nil if nobody did
}

// await waits for the next reading to be due; false when ctx has ended.
func (f *follower) await(ctx context.Context, resync <-chan time.Time, reloads <-chan chan<- error) (round, bool) {
	for {
		pause := time.NewTimer(f.pause())
		r, ok, err := f.next(ctx, pause.C, resync, reloads)
		pause.Stop()
		switch {
		case err != nil:
			return round{}, false
		case ok && r.reload != nil && f.shelf.writing():
			// Who asks has just closed the file, and that event is yet to come.
			_, err := f.wait(ctx, nil)
			return r, err == nil
		case ok:
			return r, true
		}
	}
}

// next waits for something to happen, and says whether files are to be read for it.
func (f *follower) next(ctx context.Context, pause, resync <-chan time.Time, reloads <-chan chan<- error) (r round, ok bool, err error) {
	select {
	case <-ctx.Done():
		return r, false, ctx.Err()
	case <-resync:
		f.again(true)
		return round{manner: manner{every: true}}, true, nil
	case <-pause:
		f.again(false)
		return r, f.relist || len(f.shelf.due(f.shelf.now())) > 0 || f.shelf.leavingDue(f.shelf.now()), nil
	case reload := <-reloads:
		f.again(true)
		return round{manner{every: true, asked: true}, time.Now(), reload}, true, nil
	case e := <-f.changes():
		r.seen = time.Now()
		if !f.note(e) {
			return r, false, nil
		}
	case err := <-f.faults():
		f.fault(err)
		return r, true, nil
	}
	if r.reload, err = f.settle(ctx, reloads); r.reload != nil {
		r.manner = manner{every: true, asked: true}
	}
	return r, err == nil, err
}

// Reload has a running Watch read everything again now, and waits until the outcome, if it is another
// one, was emitted. It returns what was emitted beside the table: nil, or a *sources.RejectedError; or
// ctx's error.
func (s *Source) Reload(ctx context.Context) error {
	done := make(chan error, 1)
	select {
	case s.reloads <- done:
	case <-ctx.Done():
		return fmt.Errorf("reload %s: %w", strings.Join(s.o.Paths, ", "), ctx.Err())
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("reload %s: %w", strings.Join(s.o.Paths, ", "), ctx.Err())
	}
}

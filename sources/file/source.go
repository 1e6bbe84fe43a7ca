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

	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/sources"
)

// Options say which files a Source follows, and how.
type Options struct {
	Paths    []string // names and globs (filepath.Match's syntax); a missing name is a problem, an empty glob is not
	Literal  bool     // Paths are names alone
	Lists    string   // the folder of lists that services name; "" = none
	Optional bool     // a name that was never there is no problem: another source has the services
	Watch    bool     // follow changes as they happen, not only at Resync and Reload
	// Debounce is how long a file that was written in place must not change before it counts, and the time between two
	// readings of changes that follow each other, up to 8 times that; 0 = 50 ms.
	Debounce time.Duration
	Resync   time.Duration // how often everything is read again; 0 = never

	// Keep is a directory for the last good content of each file. The next start uses it for a file that is
	// refused. "" = none. A failure to write there is a warning.
	Keep string
	// Keeper repeats what could not be written there; nil: the next change does.
	Keeper *statefile.Keeper
	// Unwatched is told which paths or directory cannot be watched, and with nil that they are again. Until then they are
	// listed every 10 s. nil = none. It must not block.
	Unwatched func(what string, err error)

	// remount is how often to look for a mount while files or directories are missing; 0 = 5 s.
	remount time.Duration

	// rewatch is how often to try to watch what could not be watched; 0 = 10 s.
	rewatch time.Duration

	// quiet is how long a file that may be half written must not change before it counts, see waits; 0 = 1 s.
	quiet time.Duration

	Log *slog.Logger // nil = none
}

// Source follows files of services. It emits the last good content of all files, joined in order of path;
// sources.Merge resolves conflicts between services. The error that comes with the table is a
// *sources.RejectedError with each problem of each file whose present content is refused.
type Source struct {
	o        Options
	reloads  chan reload
	begun    chan *follower           // has the first reading, if Begin was called and Watch was not; else nil
	warnings atomic.Pointer[[]string] // about the last emitted table

	progress progress                 // of readings
	notices  atomic.Pointer[[]string] // see Notices
}

// Warnings are about the content that is served, one line each. It may be called from any goroutine.
func (s *Source) Warnings() []string { return linesOf(&s.warnings) }

// Progress says how many files of how many the present reading has read, or the last one.
func (s *Source) Progress() (done, of int) { return s.progress.get() }

// Notices name the files that are waited for. It may be called from any goroutine.
func (s *Source) Notices() []string { return linesOf(&s.notices) }

func linesOf(p *atomic.Pointer[[]string]) []string {
	if lines := p.Load(); lines != nil {
		return *lines
	}
	return nil
}

// New makes a Source. Relative paths start at the present working directory.
func New(o Options) (*Source, error) {
	paths, err := absolute(o.Paths, o.Literal)
	if err != nil {
		return nil, err
	}
	o.Paths = paths
	if o.Lists != "" {
		if o.Lists, err = filepath.Abs(o.Lists); err != nil {
			return nil, fmt.Errorf("folder of lists %q: %w", o.Lists, err)
		}
	}
	if o.Debounce == 0 {
		o.Debounce = 50 * time.Millisecond
	}
	if o.quiet == 0 {
		o.quiet = time.Second
	}
	if o.rewatch == 0 {
		o.rewatch = RewatchAfter
	}
	if o.remount == 0 {
		o.remount = remountPause
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Unwatched == nil {
		o.Unwatched = func(string, error) {}
	}
	return &Source{o: o, reloads: make(chan reload)}, nil
}

func absolute(paths []string, literal bool) ([]string, error) {
	all := make([]string, 0, len(paths))
	for _, p := range paths {
		if _, err := filepath.Match(p, ""); err != nil && !literal {
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

// Load reads the files once, for a check. problems are all reasons to refuse a file. It reads kept content, so
// that it refuses a file that had services and is empty, but writes none.
func Load(ctx context.Context, o Options) (t sources.Table, warnings, problems []sources.Problem, err error) {
	kept := o.Keep
	o.Watch, o.Keep = false, ""
	s, err := New(o)
	if err != nil {
		return sources.Table{}, nil, nil, err
	}
	f := s.follow()
	defer f.close()
	f.guard.checking = true
	if kept != "" {
		f.guard.backups = openBackups(kept, s.o.Log)
	}
	for try := 0; ; try++ {
		f.read(scope{all: true, asked: true})
		if len(f.guard.pending) == 0 || try == readTries {
			break
		}
		select {
		case <-ctx.Done():
			return sources.Table{}, nil, nil, ctx.Err()
		case <-time.After(readPause):
		}
	}
	t, rejected := f.guard.outcome()
	if r, ok := rejected.(*sources.RejectedError); ok {
		problems = r.Problems
	}
	return t, f.guard.warnings(), problems, nil
}

// Begin starts the first reading, which Watch then takes over. A start has other things to wait for in between. What
// changes meanwhile is an event for Watch, as after any other reading.
func (s *Source) Begin() {
	s.begun = make(chan *follower, 1)
	go func() { s.begun <- s.start() }()
}

// start makes the first reading.
func (s *Source) start() *follower {
	f := s.follow()
	f.first()
	return f
}

// Watch reads the files, emits their table, and does so again whenever they change. A file that is refused or
// missing at the first reading starts with its kept content. Without that, a refused file is left out until it
// is mended, and RejectedError.Nothing says whether that leaves no services at all. While a named file without
// kept content is missing, the table is marked Incomplete.
func (s *Source) Watch(ctx context.Context, emit func(sources.Table, error)) error {
	var f *follower
	if s.begun != nil {
		f = <-s.begun
		s.begun = nil
	} else {
		f = s.start()
	}
	defer f.close()
	s.setNotices(f.guard.notices())
	emit(f.guard.outcome())
	f.save()

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
		changed := f.read(round.scope)
		table, rejected := f.guard.outcome()
		s.setNotices(f.guard.notices())
		if changed {
			if table.Seen = f.waited; table.Seen.IsZero() {
				table.Seen = round.seen
			}
			emit(table, rejected)
		}
		f.save()
		if round.reload != nil {
			round.reload <- rejected
		}
	}
}

// setNotices publishes notices and logs the new ones.
func (s *Source) setNotices(lines []string) {
	before := s.Notices()
	for _, line := range lines {
		if !slices.Contains(before, line) {
			s.o.Log.Info("waiting", slog.String("file", line))
		}
	}
	s.notices.Store(&lines)
}

// round is why files are read, and how.
type round struct {
	scope  scope
	seen   time.Time    // when the first event came; zero if there was none
	reload chan<- error // the Reload to answer; nil if there is none
}

// reload asks for a reading of everything, or of one file. done gets its error.
type reload struct {
	path string // "" = everything
	done chan<- error
}

// Reload has a running Watch read everything again now. It waits until a changed outcome was emitted. It returns
// the error that comes with that table, nil or a *sources.RejectedError; or ctx's error.
func (s *Source) Reload(ctx context.Context) error { return s.reload(ctx, "") }

// ReloadFile is Reload for one file, which is whole. The others are left to their events.
func (s *Source) ReloadFile(ctx context.Context, path string) error { return s.reload(ctx, path) }

func (s *Source) reload(ctx context.Context, path string) error {
	done := make(chan error, 1)
	select {
	case s.reloads <- reload{path, done}:
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

package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// testLimit bounds every wait. A test that passes never waits that long.
const testLimit = 20 * time.Second

type emission struct {
	names []string // of the services, in order
	err   error
}

func (e emission) String() string { return fmt.Sprintf("%v %v", e.names, e.err) }

// rig is a Source at work on a directory of its own.
type rig struct {
	*testing.T
	dir    string
	begun  func() // between Begin and Watch; nil: Begin is not called
	source *Source
	emits  chan emission
	ended  chan error
	stop   func()
}

// start runs a Source over paths in a new directory, after prepare has filled it.
func start(t *testing.T, prepare func(r *rig), o Options) *rig {
	r := &rig{T: t, dir: t.TempDir()}
	if prepare != nil {
		prepare(r)
	}
	r.run(o)
	return r
}

// run runs a Source over paths in the directory, until the test ends or r.stop is called.
func (r *rig) run(o Options) {
	o.Paths = slices.Clone(o.Paths)
	for i, p := range o.Paths {
		o.Paths[i] = r.path(p)
	}
	if o.Debounce == 0 {
		o.Debounce = 10 * time.Millisecond
	}
	if o.quiet == 0 {
		o.quiet = 50 * time.Millisecond
	}
	source, err := New(o)
	if err != nil {
		r.Fatal(err)
	}
	if r.begun != nil {
		source.Begin()
		source.begun <- <-source.begun // the reading is over
		r.begun()
	}
	emits, ended := make(chan emission, 1000), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		ended <- source.Watch(ctx, func(table sources.Table, err error) {
			e := emission{err: err}
			for _, s := range table.Services.All() {
				e.names = append(e.names, s.Name)
			}
			emits <- e
		})
		close(ended)
	}()
	r.source, r.emits, r.ended = source, emits, ended
	r.stop = func() {
		cancel()
		for range ended {
		}
	}
	r.Cleanup(r.stop)
}

func watching(paths ...string) Options { return Options{Paths: paths, Watch: true} }

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// write writes a file of the named services in place.
func (r *rig) write(file string, names ...string) {
	r.Helper()
	r.put(file, services(names...))
}

func (r *rig) put(file, text string) {
	r.Helper()
	r.must(os.WriteFile(r.path(file), []byte(text), 0o644))
}

// services is a file of services; each name has an address of its own, in whatever file.
func services(names ...string) string {
	b := strings.Builder{}
	b.WriteString("# services\n")
	for _, n := range names {
		fmt.Fprintf(&b, "[services.%s]\nclusterIP = \"10.96.0.%d\"\nports = [ { port = 80 } ]\n", n, n[0])
	}
	return b.String()
}

// want waits for an emission of these services whose error has all of the words of problem; "" = no error.
func (r *rig) want(problem string, names ...string) error {
	r.Helper()
	var seen []emission
	timeout := time.After(testLimit)
	for {
		select {
		case e := <-r.emits:
			text := ""
			if e.err != nil {
				text = e.err.Error()
			}
			if slices.Equal(e.names, names) && (problem == "") == (e.err == nil) && strings.Contains(text, problem) {
				return e.err
			}
			seen = append(seen, e)
		case err := <-r.ended:
			r.Fatalf("Watch ended: %v", err)
		case <-timeout:
			r.Fatalf("want %v %q, seen %v", names, problem, seen)
		}
	}
}

// reload reads everything again and returns the error. Then all emissions have been made.
func (r *rig) reload() error {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	defer cancel()
	return r.source.Reload(ctx)
}

// silent checks that nothing more is emitted.
func (r *rig) silent() {
	r.Helper()
	if err := r.reload(); err != nil {
		r.Error("reload:", err)
	}
	if len(r.emits) > 0 {
		r.Errorf("emitted %v", <-r.emits)
	}
}

func TestWriteInPlace(t *testing.T) {
	r := start(t, func(r *rig) { r.write("s.toml", "a") }, watching("s.toml"))
	r.want("", "a")
	r.write("s.toml", "a", "b")
	r.want("", "a", "b")
	r.silent()
}

// What changes between Begin and Watch follows the first reading.
func TestChangedSinceBegin(t *testing.T) {
	r := start(t, func(r *rig) {
		r.write("services.toml", "a")
		r.begun = func() { r.write("services.toml", "a", "b") }
	}, watching("services.toml"))
	if e := <-r.emits; e.err != nil || !slices.Equal(e.names, []string{"a"}) {
		t.Errorf("first: %v", e)
	}
	r.want("", "a", "b")
}

func TestRenameOver(t *testing.T) {
	r := start(t, func(r *rig) { r.write("s.toml", "a") }, watching("s.toml"))
	r.want("", "a")
	for _, name := range []string{"b", "c", "d"} {
		r.write("s.toml.new", name)
		r.must(os.Rename(r.path("s.toml.new"), r.path("s.toml")))
		r.want("", name)
	}
	r.silent()
}

func TestDeleteAndCreateAgain(t *testing.T) {
	r := start(t, func(r *rig) { r.write("s.toml", "a") }, watching("s.toml"))
	r.want("", "a")
	for range 3 {
		r.must(os.Remove(r.path("s.toml")))
		r.want("is not there", "a")
		r.write("s.toml", "a")
		r.want("", "a")
	}
}

// TestConfigMap swaps ..data as a kubelet does: no event names the file itself.
func TestConfigMap(t *testing.T) {
	r := start(t, func(r *rig) {
		r.must(os.MkdirAll(r.path("etc/..1"), 0o755))
		r.write("etc/..1/s.toml", "a")
		r.must(os.Symlink("..1", r.path("etc/..data")))
		r.must(os.Symlink("..data/s.toml", r.path("etc/s.toml")))
	}, watching("etc/*.toml"))
	r.want("", "a")
	for i, name := range []string{"b", "c", "d"} {
		dir := fmt.Sprintf("..%d", i+2)
		r.must(os.Mkdir(r.path("etc/"+dir), 0o755))
		r.write("etc/"+dir+"/s.toml", name)
		r.must(os.Symlink(dir, r.path("etc/..tmp")))
		r.must(os.Rename(r.path("etc/..tmp"), r.path("etc/..data")))
		r.must(os.RemoveAll(r.path(fmt.Sprintf("etc/..%d", i+1))))
		r.want("", name)
	}
}

// TestLinkedElsewhere follows a link to another directory, and changes its target there.
func TestLinkedElsewhere(t *testing.T) {
	r := start(t, func(r *rig) {
		r.must(os.MkdirAll(r.path("far/away"), 0o755))
		r.must(os.Mkdir(r.path("etc"), 0o755))
		r.write("far/away/x", "a")
		r.must(os.Symlink("../far/away/x", r.path("etc/s.toml")))
	}, watching("etc/s.toml"))
	r.want("", "a")
	r.write("far/away/x", "b")
	r.want("", "b")
	r.write("far/away/y", "c")
	r.must(os.Rename(r.path("far/away/y"), r.path("far/away/x")))
	r.want("", "c")
	r.must(os.Remove(r.path("far/away/x")))
	r.want("is a link to nothing", "c")
	r.write("far/away/x", "d")
	r.want("", "d")
}

func TestDirectoryReplaced(t *testing.T) {
	r := start(t, func(r *rig) {
		r.must(os.Mkdir(r.path("etc"), 0o755))
		r.write("etc/s.toml", "a")
	}, watching("etc/s.toml"))
	r.want("", "a")
	r.must(os.Mkdir(r.path("new"), 0o755))
	r.write("new/s.toml", "b")
	r.must(os.Rename(r.path("etc"), r.path("old")))
	r.must(os.Rename(r.path("new"), r.path("etc")))
	r.want("", "b")
	r.write("etc/s.toml", "c")
	r.want("", "c")
	r.must(os.RemoveAll(r.path("etc")))
	r.want("is not there", "c")
	r.must(os.Mkdir(r.path("etc"), 0o755))
	r.write("etc/s.toml", "d")
	r.want("", "d")
}

// TestMissingAtStart waits for a directory deep below an existing one. Until then the table is marked incomplete.
func TestMissingAtStart(t *testing.T) {
	r := start(t, nil, watching("a/b/s.toml", "a/b/s.d/*.toml"))
	err := r.want("is not there")
	var rejected *sources.RejectedError
	if !errors.As(err, &rejected) || !rejected.Incomplete || !slices.Equal(rejected.Files, []string{r.path("a/b/s.toml")}) {
		t.Errorf("%+v", err)
	}
	r.must(os.MkdirAll(r.path("a/b/s.d"), 0o755))
	r.write("a/b/s.d/x.toml", "x")
	r.want("is not there", "x")
	r.write("a/b/s.toml", "a")
	r.want("", "a", "x")
	// From now on it has a last good content, and is complete with it.
	r.must(os.Remove(r.path("a/b/s.toml")))
	if err := r.want("is not there", "a", "x"); !errors.As(err, &rejected) || rejected.Incomplete {
		t.Errorf("%+v", err)
	}
}

// TestGlob: a file that leaves the directory takes its services with it. The files of editors are ignored.
func TestGlob(t *testing.T) {
	r := start(t, func(r *rig) { r.must(os.Mkdir(r.path("s.d"), 0o755)) }, watching("s.d/*.toml"))
	r.want("")
	r.write("s.d/1.toml", "a")
	r.want("", "a")
	r.write("s.d/.#2.toml", "b")
	r.write("s.d/2.toml~", "b")
	r.write("s.d/2.toml", "c")
	r.want("", "a", "c")
	r.must(os.Rename(r.path("s.d/1.toml"), r.path("s.d/1.toml.off")))
	r.want("", "c")
	// If the directory itself goes, its services stay.
	r.must(os.RemoveAll(r.path("s.d")))
	r.want("s.d: is not there and had 1 file", "c")
	r.must(os.Mkdir(r.path("s.d"), 0o755))
	r.want("")
	r.silent()
}

// TestBroken: a broken file keeps its own last good content, the others apply.
func TestBroken(t *testing.T) {
	r := start(t, func(r *rig) {
		r.write("a.toml", "a")
		r.write("b.toml", "b")
	}, watching("*.toml"))
	r.want("", "a", "b")
	r.put("a.toml", services("a", "c")+"nonsense\n")
	r.want("not TOML", "a", "b")
	r.write("b.toml", "b", "d")
	err := r.want("not TOML", "a", "b", "d")
	var rejected *sources.RejectedError
	if !errors.As(err, &rejected) || rejected.Incomplete || !slices.Equal(rejected.Files, []string{r.path("a.toml")}) {
		t.Errorf("%+v", err)
	}
	r.put("a.toml", services("a", "c")+"typo = 1\n\n[services.e]\n")
	r.want("(and 2 more)", "a", "b", "d")
	r.put("c.toml", "broken from the start")
	r.want("(and 3 more)", "a", "b", "d")
	r.must(os.Remove(r.path("c.toml")))
	r.write("a.toml", "a", "c")
	r.want("", "a", "b", "c", "d")
	// The last good content again, after a broken one, is not stale.
	r.put("a.toml", "broken")
	r.want("not TOML", "a", "b", "c", "d")
	r.write("a.toml", "a", "c")
	r.want("", "a", "b", "c", "d")
	r.silent()
}

func TestEmptied(t *testing.T) {
	r := start(t, func(r *rig) {
		r.write("a.toml", "a")
		r.put("b.toml", "")
	}, watching("*.toml"))
	r.want("", "a")
	r.put("a.toml", "")
	r.want("is empty and had 1 service", "a")
	r.put("a.toml", "# a comment\n")
	r.want("has no services and had 1", "a")
	r.put("a.toml", "services = {} # none\n")
	r.want("")
	r.put("a.toml", "") // had none
	r.silent()
}

// TestConflict: two files with a conflict are both accepted, and the table has both services. sources.Merge decides.
func TestConflict(t *testing.T) {
	r := start(t, func(r *rig) {
		r.write("a.toml", "a")
		r.write("b.toml", "a", "b")
	}, watching("*.toml"))
	r.want("", "a", "a", "b")
	if err := r.reload(); err != nil {
		t.Error(err)
	}
}

// TestBrokenAtStart: a file that is broken at the start and never was good is left out until it is mended.
func TestBrokenAtStart(t *testing.T) {
	r := start(t, func(r *rig) {
		r.write("a.toml", "a")
		r.put("b.toml", "[services.b]\nclusterIP = 1\n")
	}, watching("*.toml"))
	err := r.want("nothing of this file is served until it is mended", "a")
	var rejected *sources.RejectedError
	if !errors.As(err, &rejected) || rejected.Problems[0].Origin.Line != 2 || rejected.Nothing ||
		!slices.Equal(rejected.Unserved, []string{r.path("b.toml")}) {
		t.Errorf("%+v", rejected)
	}
	r.write("b.toml", "b")
	r.want("", "a", "b")
}

// TestNothingIsGood: RejectedError.Nothing says that no file is good.
func TestNothingIsGood(t *testing.T) {
	r := start(t, func(r *rig) { r.put("b.toml", "[services.b]\nclusterIP = 1\n") }, watching("*.toml"))
	var rejected *sources.RejectedError
	if err := r.want("clusterIP"); !errors.As(err, &rejected) || !rejected.Nothing {
		t.Errorf("%+v", rejected)
	}
	r.write("a.toml", "a")
	if err := r.want("clusterIP", "a"); !errors.As(err, &rejected) || rejected.Nothing {
		t.Errorf("%+v", rejected)
	}
}

// TestGoodSince: a file without services that was good has a time, too.
func TestGoodSince(t *testing.T) {
	r := start(t, func(r *rig) { r.put("a.toml", "") }, watching("a.toml"))
	r.want("")
	r.put("a.toml", "broken")
	r.want("; serving the last good content of 20")
}

// TestNotRegular: anything but a regular file is refused at once.
func TestNotRegular(t *testing.T) {
	r := start(t, func(r *rig) { r.write("a.toml", "a") }, watching("*.toml"))
	r.want("", "a")
	r.must(syscall.Mkfifo(r.path("fifo.toml"), 0o600))
	r.want("is not a regular file but a FIFO", "a")
	r.must(os.Remove(r.path("fifo.toml")))
	r.want("", "a")
	r.must(os.Mkdir(r.path("dir.toml"), 0o700))
	r.want("is a directory", "a")
	r.must(os.Remove(r.path("dir.toml")))
	r.want("", "a")
	r.must(os.Symlink("loop.toml", r.path("loop.toml")))
	r.want("too many levels", "a")
	r.must(os.Remove(r.path("loop.toml")))
	r.want("", "a")
	r.must(os.WriteFile(r.path("large.new"), nil, 0o600))
	r.must(os.Truncate(r.path("large.new"), maxSize+1))
	r.must(os.Rename(r.path("large.new"), r.path("large.toml")))
	r.want("is 16 MiB large: at most 16", "a")
}

// TestBurst: many writes make one change, or few, and the last one counts.
func TestBurst(t *testing.T) {
	o := watching("s.toml")
	o.Debounce = 50 * time.Millisecond
	r := start(t, func(r *rig) { r.write("s.toml", "a") }, o)
	r.want("", "a")
	for i := range 500 {
		r.write("s.toml", string(rune('b'+i%20)))
	}
	r.write("s.toml", "z")
	r.want("", "z")
	r.silent()
}

// TestReloadDoesNotWait: a Reload does not wait for the debounce.
func TestReloadDoesNotWait(t *testing.T) {
	o := watching("s.toml")
	o.Debounce = testLimit
	r := start(t, func(r *rig) { r.write("s.toml", "a") }, o)
	r.want("", "a")
	r.write("s.toml", "b")
	r.must(r.reload())
	if e := <-r.emits; !slices.Equal(e.names, []string{"b"}) {
		t.Errorf("%v", e)
	}
}

// TestReloadWaitsForTheClose: a Reload that overtakes the event of the close waits for that event, and no longer.
func TestReloadWaitsForTheClose(t *testing.T) {
	r := &rig{T: t, dir: t.TempDir()}
	r.write("s.toml", "a")
	source, err := New(Options{Paths: []string{r.path("s.toml")}, Debounce: testLimit})
	r.must(err)
	f := source.follow()
	defer f.close()
	f.first()
	f.watcher = &watcher{events: make(chan event, 1), errs: make(chan error)}
	defer func() { f.watcher = nil }()
	for range 10 { // which of two that are ready comes first is random
		f.store.touch(r.path("s.toml"), syscall.IN_MODIFY)
		f.watcher.events <- event{r.path("s.toml"), syscall.IN_CLOSE_WRITE}
		reloads := make(chan chan<- error, 1)
		reloads <- make(chan error, 1)
		begin := time.Now()
		if round, ok := f.await(t.Context(), nil, reloads); !ok || round.reload == nil || f.store.writing() {
			t.Fatalf("%+v, %v", round, ok)
		}
		if took := time.Since(begin); took > testLimit/2 {
			t.Fatalf("took %v", took)
		}
	}
}

// TestDebounceFor: a single change is read after one debounce, a series of changes after up to 8. Changes that are
// further apart than that are single ones, whatever came before them.
func TestDebounceFor(t *testing.T) {
	const debounce = 50 * time.Millisecond
	calm := debounce
	for _, want := range []time.Duration{2, 4, 8, 8} {
		if calm = debounceFor(debounce, calm, calm); calm != want*debounce {
			t.Errorf("%v, want %v", calm, want*debounce)
		}
	}
	if calm = debounceFor(debounce, calm, calm+1001*time.Millisecond); calm != debounce {
		t.Errorf("%v after a pause", calm)
	}
}

// TestDebounceOfRhythms: whatever a program's rhythm, a wait that joins no two writes in one reading stays one debounce.
func TestDebounceOfRhythms(t *testing.T) {
	const debounce = 50 * time.Millisecond
	for _, c := range []struct{ every, reading, want time.Duration }{
		{time.Second, 30 * time.Millisecond, debounce},
		{time.Second, 500 * time.Millisecond, debounce},
		{time.Second, 700 * time.Millisecond, 8 * debounce}, // a reading takes most of the time: let changes gather
		{600 * time.Millisecond, 30 * time.Millisecond, debounce},
		{420 * time.Millisecond, 30 * time.Millisecond, 8 * debounce},
		{100 * time.Millisecond, 10 * time.Millisecond, 8 * debounce},
	} {
		for _, calm := range []time.Duration{debounce, 8 * debounce} {
			for range 10 {
				calm = debounceFor(debounce, calm, calm+max(c.every-calm-c.reading, 0))
			}
			if calm != c.want {
				t.Errorf("a write every %v, read in %v: waits %v, want %v", c.every, c.reading, calm, c.want)
			}
		}
	}
}

func TestUnwatched(t *testing.T) {
	r := start(t, func(r *rig) { r.write("s.toml", "a") }, Options{Paths: []string{"s.toml"}})
	r.want("", "a")
	r.write("s.toml", "b")
	r.must(r.reload())
	if e := <-r.emits; !slices.Equal(e.names, []string{"b"}) { // no wait: emitted before Reload returned
		t.Errorf("%v", e)
	}
	r.put("s.toml", "broken")
	if err := r.reload(); err == nil || !strings.Contains(err.Error(), "s.toml:1: not TOML") {
		t.Error(err)
	}
}

func TestResync(t *testing.T) {
	r := start(t, func(r *rig) { r.write("s.toml", "a") },
		Options{Paths: []string{"s.toml"}, Resync: 10 * time.Millisecond})
	r.want("", "a")
	r.write("s.toml", "b")
	r.want("", "b")
}

func TestReloadWithoutWatch(t *testing.T) {
	s, err := New(watching("x"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Reload(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestBadGlob(t *testing.T) {
	if _, err := New(watching("[")); !errors.Is(err, filepath.ErrBadPattern) {
		t.Error(err)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.toml": services("a"),
		"b.toml": services("a", "b"),
		"c.toml": "typo = 1\n" + services("c"),
		"d.toml": services("d") + "loadBalancerSourceRanges = [\"10.0.0.1/8\"]\ntype = \"LoadBalancer\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	missing := filepath.Join(dir, "missing.toml")
	table, warnings, problems, err := Load(context.Background(), Options{Paths: []string{filepath.Join(dir, "[a-d].toml"), missing}})
	if err != nil || table.Services.Len() != 4 || len(warnings) != 1 {
		t.Error(table, warnings, err)
	}
	var got []string
	for _, p := range problems {
		got = append(got, strings.ReplaceAll(p.Error(), dir+"/", ""))
	}
	want := []string{
		`c.toml:1: unknown key "typo", the keys here are healthChecks, services`,
		"missing.toml: is not there",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// takes has a store take content as a whole file's.
func takes(s *store, path, text string) bool {
	return s.judge(path, Content{Data: []byte(text), Quotable: true}, identity{}, &listing{}, scope{asked: true})
}

// TestNeverStill: a file that is written all the time is refused and keeps its last good content.
func TestNeverStill(t *testing.T) {
	s := newStore()
	takes(s, "x", services("a"))
	s.hold("x", s.records["x"], identity{}, "is being written", false)
	s.giveUp()
	table, err := s.outcome()
	if table.Services.Len() != 1 || err == nil {
		t.Error(table, err)
	}
}

// TestUnlistable: a directory that cannot be listed is not an empty one.
func TestUnlistable(t *testing.T) {
	s := newStore()
	l := &listing{}
	takes(s, "/etc/s.d/x.toml", services("a"))
	l.unlist("/etc/s.d", syscall.EIO)
	s.update(l, scope{})
	table, err := s.outcome()
	var rejected *sources.RejectedError
	if table.Services.Len() != 1 || !errors.As(err, &rejected) || !rejected.Incomplete {
		t.Error(table, err)
	}
	if !s.update(&listing{}, scope{}) {
		t.Error("nothing new when it is listed again, without the file")
	}
	if table, err = s.outcome(); table.Services.Len() != 0 || err != nil {
		t.Error(table, err)
	}
}

// TestOptional: with Optional a missing file is no problem, unless it was there before.
func TestOptional(t *testing.T) {
	s := newStore()
	s.optional = true
	l := &listing{named: map[string]bool{"x": true}, missing: []string{"x"}}
	if s.update(l, scope{}) {
		t.Error("a file that never was is news")
	}
	if table, err := s.outcome(); table.Services.Len() != 0 || err != nil {
		t.Error(table, err)
	}
	takes(s, "x", services("a"))
	if !s.update(l, scope{}) {
		t.Error("a file that is gone is no news")
	}
	if table, err := s.outcome(); table.Services.Len() != 1 || err == nil {
		t.Error(table, err)
	}
}

// TestUnchangedIsNotParsed: of a thousand files in services.d only the changed one is parsed.
func TestUnchangedIsNotParsed(t *testing.T) {
	s := newStore()
	if !takes(s, "x", services("a")) {
		t.Error("the first content is no news")
	}
	r := s.records["x"]
	parsed := r.reading.table.Services.At(0)
	if takes(s, "x", services("a")) || r.reading.table.Services.At(0) != parsed {
		t.Error("parsed again")
	}
	if takes(s, "x", services("a")+"\n") || r.reading.table.Services.At(0) == parsed {
		t.Error("another text of the same services is news, or was not parsed")
	}
}

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
	if o.Lists != "" {
		o.Lists = r.path(o.Lists)
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
			for _, l := range table.Lists {
				e.names = append(e.names, fmt.Sprint("@", l.Name, l.Prefixes))
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
	r.must(os.Truncate(r.path("large.new"), MaxSize+1))
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

// TestPace: a single change is read at once, a series of changes at growing distances, up to 8 debounces.
func TestPace(t *testing.T) {
	const debounce = 50 * time.Millisecond
	at := time.Now()
	var p pace
	if p.next().After(at) {
		t.Error("the first change waits")
	}
	var readings []int
	for begin := at; at.Sub(begin) < 2*time.Second; at = at.Add(time.Millisecond) { // an event each millisecond
		if !at.Before(p.next()) {
			p = p.read(at, debounce)
			readings = append(readings, int(at.Sub(begin)/time.Millisecond))
		}
	}
	if want := []int{0, 50, 150, 350, 750, 1150, 1550, 1950}; !slices.Equal(readings, want) {
		t.Errorf("read after %d ms, want %d", readings, want)
	}
	for range 3 { // changes that are further apart than any wait are single ones
		if at = at.Add(401 * time.Millisecond); p.next().After(at) {
			t.Error("a change waits after a pause")
		}
		p = p.read(at, debounce)
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

// takes has a guard take content that is asked for.
func takes(g *guard, path, text string) bool {
	now := time.Now()
	return g.take(path, look{id: identity{ino: 1, written: now.UnixNano()}, content: Content{[]byte(text), true}}, true, now)
}

// running is a guard after its first reading.
func running() *guard {
	g := newGuard(waits{50 * time.Millisecond, time.Second, 10 * time.Millisecond}, "")
	g.starting = false
	return g
}

// TestUnlistable: a directory that cannot be listed is not an empty one.
func TestUnlistable(t *testing.T) {
	g := running()
	l := &listing{}
	takes(g, "/etc/s.d/x.toml", services("a"))
	l.unlist("/etc/s.d", syscall.EIO)
	if !l.mayHold("/etc/s.d/x.toml") || !g.directories(l, time.Now()) {
		t.Error("nothing new")
	}
	g.take("/etc/s.d/x.toml", look{hidden: true}, true, time.Now())
	table, err := g.outcome()
	var rejected *sources.RejectedError
	if table.Services.Len() != 1 || !errors.As(err, &rejected) || !rejected.Incomplete {
		t.Error(table, err)
	}
	if !g.take("/etc/s.d/x.toml", look{absent: true}, true, time.Now()) || !g.directories(&listing{}, time.Now()) {
		t.Error("nothing new when it is listed again, without the file")
	}
	if table, err = g.outcome(); table.Services.Len() != 0 || err != nil {
		t.Error(table, err)
	}
}

// TestOptional: with Optional a missing file is no problem, unless it was there before.
func TestOptional(t *testing.T) {
	s, err := New(Options{Paths: []string{"/no/such/x"}, Optional: true})
	if err != nil {
		t.Fatal(err)
	}
	f := s.follow()
	if f.read(scope{all: true}) {
		t.Error("a file that never was is news")
	}
	if table, err := f.guard.outcome(); table.Services.Len() != 0 || err != nil {
		t.Error(table, err)
	}
	takes(f.guard, "/no/such/x", services("a"))
	if !f.read(scope{all: true, asked: true}) {
		t.Error("a file that is gone is no news")
	}
	if table, err := f.guard.outcome(); table.Services.Len() != 1 || err == nil {
		t.Error(table, err)
	}
}

// TestUnchangedIsNotParsed: of a thousand files in services.d only the changed one is parsed.
func TestUnchangedIsNotParsed(t *testing.T) {
	g := running()
	if !takes(g, "x", services("a")) {
		t.Error("the first content is no news")
	}
	parsed := g.files["x"].served.reading.table.Services.At(0)
	again := func() bool { return g.files["x"].served.reading.table.Services.At(0) == parsed }
	if takes(g, "x", services("a")) || !again() {
		t.Error("parsed again")
	}
	if takes(g, "x", services("a")+"\n") || again() {
		t.Error("another text of the same services is news, or was not parsed")
	}
}

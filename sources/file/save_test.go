package file

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/sources"
)

// keeping follows paths and keeps good content in r.dir/kept. The log may be read after r.stop.
func (r *rig) keeping(paths ...string) (Options, *bytes.Buffer) {
	log := &bytes.Buffer{}
	o := watching(paths...)
	o.Keep, o.Log = r.path("kept"), slog.New(slog.NewTextHandler(log, nil))
	return o, log
}

// kept are the files that have a copy, without the directory.
func (r *rig) kept() (names []string) {
	r.Helper()
	all, err := LastGood{Dir: r.path("kept")}.Names()
	r.must(err)
	for _, n := range all {
		names = append(names, strings.TrimPrefix(n, r.dir+"/"))
	}
	return names
}

// broken are ways to break a file's content.
var broken = map[string]func(r *rig, path string){
	"no longer TOML":    func(r *rig, path string) { r.must(os.WriteFile(path, []byte("[services."), 0o644)) },
	"cut to nothing":    func(r *rig, path string) { r.must(os.Truncate(path, 0)) },
	"gone":              func(r *rig, path string) { r.must(os.Remove(path)) },
	"a directory":       func(r *rig, path string) { r.must(os.Remove(path)); r.must(os.Mkdir(path, 0o755)) },
	"a FIFO":            func(r *rig, path string) { r.must(os.Remove(path)); r.must(syscall.Mkfifo(path, 0o644)) },
	"a link to nothing": func(r *rig, path string) { r.must(os.Remove(path)); r.must(os.Symlink("nowhere", path)) },
	"a link to itself":  func(r *rig, path string) { r.must(os.Remove(path)); r.must(os.Symlink(path, path)) },
}

// TestBrokenBetweenRuns: good content of the last run is served in the next one, and reported as stale.
func TestBrokenBetweenRuns(t *testing.T) {
	for how, spoil := range broken {
		t.Run(how, func(t *testing.T) {
			r := &rig{T: t, dir: t.TempDir()}
			r.write("s.toml", "old")
			r.write("t.toml", "t")
			o, log := r.keeping("s.toml", "t.toml")
			begin := time.Now().Add(-time.Second)
			r.run(o)
			r.want("", "old", "t")
			r.write("s.toml", "a", "b")
			r.want("", "a", "b", "t")
			r.stop()

			spoil(r, r.path("s.toml"))
			for range 2 { // a restart more is nothing new
				r.run(o)
				err := r.want("; serving the last good content of 20", "a", "b", "t")
				var rejected *sources.RejectedError
				if !errors.As(err, &rejected) || rejected.Incomplete || len(rejected.Stale) != 1 ||
					rejected.Stale[0].Path != r.path("s.toml") || rejected.Stale[0].Good.Before(begin) {
					t.Errorf("%+v", rejected)
				}
				r.stop()
			}
			r.run(o)
			r.want("serving", "a", "b", "t")
			r.must(os.RemoveAll(r.path("s.toml")))
			r.write("s.toml", "c")
			r.want("", "c", "t")
			// Broken again, it is this run's content that goes on, and nothing is stale.
			r.put("s.toml", "broken")
			err := r.want("; serving the last good content of 20", "c", "t")
			if rejected := err.(*sources.RejectedError); len(rejected.Stale) != 0 {
				t.Errorf("%+v", rejected)
			}
			r.stop()
			if strings.Contains(log.String(), "level=WARN") {
				t.Errorf("%s", log)
			}
		})
	}
}

// TestLeftIsForgotten: a copy is deleted with its file, whether a run sees that or not. The copy of a file in a directory
// that cannot be listed stays and is served.
func TestLeftIsForgotten(t *testing.T) {
	r := &rig{T: t, dir: t.TempDir()}
	r.must(os.Mkdir(r.path("s.d"), 0o755))
	for _, name := range []string{"a", "b", "c"} {
		r.write("s.d/"+name+".toml", name)
	}
	o, _ := r.keeping("s.d/*.toml")
	r.run(o)
	r.want("", "a", "b", "c")
	r.must(os.Remove(r.path("s.d/a.toml")))
	r.want("", "b", "c")
	r.stop()
	if kept := r.kept(); !slices.Equal(kept, []string{"s.d/b.toml", "s.d/c.toml"}) {
		t.Error(kept)
	}

	r.must(os.Remove(r.path("s.d/b.toml")))
	r.run(o)
	r.want("", "c")
	r.stop()
	if kept := r.kept(); !slices.Equal(kept, []string{"s.d/c.toml"}) {
		t.Error(kept)
	}

	r.must(os.RemoveAll(r.path("s.d")))
	r.must(os.Symlink("s.d", r.path("s.d")))
	r.run(o)
	err := r.want("cannot list the directory", "c")
	if rejected := err.(*sources.RejectedError); !rejected.Incomplete || len(rejected.Stale) != 1 {
		t.Errorf("%+v", rejected)
	}
	r.stop()
}

// TestOptionalIsGone: a file that another source may replace is missed at a start if an earlier run had it.
func TestOptionalIsGone(t *testing.T) {
	r := &rig{T: t, dir: t.TempDir()}
	r.write("s.toml", "a")
	o, _ := r.keeping("s.toml")
	o.Optional = true
	r.run(o)
	r.want("", "a")
	r.stop()
	r.must(os.Remove(r.path("s.toml")))
	r.run(o)
	if rejected := r.want("is not there", "a").(*sources.RejectedError); len(rejected.Stale) != 1 {
		t.Errorf("%+v", rejected)
	}
	r.stop()
}

// TestKeptIsNoGood: a copy that is damaged, or that this version refuses, is ignored.
func TestKeptIsNoGood(t *testing.T) {
	for how, damage := range map[string]func(r *rig, s LastGood, path string){
		"cut": func(r *rig, s LastGood, path string) {
			copies, err := filepath.Glob(s.Dir + "/*")
			r.must(err)
			r.must(os.Truncate(copies[0], 120))
		},
		"of another version": func(r *rig, s LastGood, path string) {
			r.must(s.Put(path, []byte("[services.a]\nlater = 1\n"), time.Now()))
		},
	} {
		t.Run(how, func(t *testing.T) {
			r := &rig{T: t, dir: t.TempDir()}
			r.write("s.toml", "a")
			o, log := r.keeping("s.toml")
			r.run(o)
			r.want("", "a")
			r.stop()
			damage(r, LastGood{Dir: r.path("kept")}, r.path("s.toml"))

			r.put("s.toml", "broken")
			r.run(o)
			// It was good, so what the kernel has of it must not be removed for being unknown.
			if rejected := r.want("nothing of this file is served").(*sources.RejectedError); !rejected.Incomplete || !rejected.Nothing {
				t.Errorf("%+v", rejected)
			}
			r.stop()
			if !strings.Contains(log.String(), "damaged or no longer valid") || strings.Count(log.String(), "\n") != 1 {
				t.Errorf("%s", log)
			}
			r.write("s.toml", "b")
			r.run(o)
			r.want("", "b")
			r.stop()
			r.put("s.toml", "broken")
			r.run(o)
			r.want("serving", "b")
		})
	}
}

// TestNeverKept: if other files have copies and a file has none, it never was good. If there is no copy at all, they may
// have been lost.
func TestNeverKept(t *testing.T) {
	r := &rig{T: t, dir: t.TempDir()}
	r.write("a.toml", "a")
	r.put("b.toml", "broken")
	o, _ := r.keeping("*.toml")
	for _, incomplete := range []bool{true, false} {
		r.run(o)
		if rejected := r.want("nothing of this file is served", "a").(*sources.RejectedError); rejected.Incomplete != incomplete {
			t.Errorf("%+v, want incomplete %v", rejected, incomplete)
		}
		r.stop()
	}
	r.run(o)
	r.want("nothing of this file is served", "a")
	r.put("c.toml", "broken, too")
	if rejected := r.want("(and 1 more)", "a").(*sources.RejectedError); rejected.Incomplete || len(rejected.Unserved) != 2 {
		t.Errorf("%+v", rejected)
	}
}

// TestNothingIsKept: a failure to write delays nothing and is said. When writing works again, all missed copies are written
// without another change.
func TestNothingIsKept(t *testing.T) {
	r := &rig{T: t, dir: t.TempDir()}
	r.put("kept", "a file where a directory should be")
	r.write("s.toml", "a")
	r.write("t.toml", "t")
	o, _ := r.keeping("s.toml", "t.toml")
	var said []error
	keeper := &statefile.Keeper{Said: func(_ string, err error) { said = append(said, err) }}
	o.Keeper = keeper
	r.run(o)
	r.want("", "a", "t")
	for _, name := range []string{"b", "c"} {
		r.write("s.toml", name)
		r.want("", name, "t")
	}
	r.stop()
	if len(said) == 0 || slices.Contains(said, nil) {
		t.Errorf("said %v", said)
	}
	r.must(os.Remove(r.path("kept")))
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 15*time.Second)
		defer stop()
		keeper.Run(ctx)
		synctest.Wait()
	})
	if kept := r.kept(); !slices.Equal(kept, []string{"s.toml", "t.toml"}) || said[len(said)-1] != nil {
		t.Error(kept, said)
	}
}

// TestCheckKeepsNothing: Load writes no copies.
func TestCheckKeepsNothing(t *testing.T) {
	r := &rig{T: t, dir: t.TempDir()}
	r.write("s.toml", "a")
	o, _ := r.keeping(r.path("s.toml"))
	if _, _, _, err := Load(t.Context(), o); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(o.Keep); err == nil {
		t.Error("made a directory")
	}
}

// TestLoadKnowsWhatWasKept: Load refuses what Watch would, and writes nothing.
func TestLoadKnowsWhatWasKept(t *testing.T) {
	dir, keep := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "services.toml")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	load := func() []sources.Problem {
		_, _, problems, err := Load(context.Background(), Options{Paths: []string{path}, Keep: keep})
		if err != nil {
			t.Fatal(err)
		}
		return problems
	}
	if problems := load(); len(problems) > 0 {
		t.Errorf("empty at first: %v", problems)
	}
	if entries, _ := os.ReadDir(keep); len(entries) > 0 {
		t.Errorf("a check wrote %v", entries)
	}
	if err := (LastGood{Dir: keep}).Put(path, []byte(services("a")), time.Now()); err != nil {
		t.Fatal(err)
	}
	if problems := load(); len(problems) != 1 || !strings.Contains(problems[0].Message, "is empty and had 1 service") {
		t.Errorf("empty, and it had a service: %v", problems)
	}
}

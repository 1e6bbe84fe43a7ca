package file

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/svcproxy/svcproxy/sources"
)

// letters are names of services, one letter each.
func letters(n int) (names []string) {
	for i := range n {
		names = append(names, string(rune('a'+i)))
	}
	return names
}

// neverLess checks that every emission so far has all of some services.
func (r *rig) neverLess(names []string) {
	r.Helper()
	for len(r.emits) > 0 {
		if e := <-r.emits; len(e.names) < len(names) || e.err != nil {
			r.Errorf("emitted %v", e)
		}
	}
}

// wantNotice waits until there is one notice with these words, and checks that nothing was emitted.
func (r *rig) wantNotice(words string) {
	r.Helper()
	var n []string
	for begin := time.Now(); time.Since(begin) < testLimit; time.Sleep(5 * time.Millisecond) {
		if n = r.source.Notices(); len(n) == 1 && strings.Contains(n[0], words) {
			if len(r.emits) > 0 {
				r.Errorf("emitted %v", <-r.emits)
			}
			return
		}
	}
	r.Errorf("notices %q, want %q", n, words)
}

// TestSlowWriters: a file that is rewritten in place, in pieces, is accepted when it is complete, whatever calls the
// writer makes.
func TestSlowWriters(t *testing.T) {
	names := letters(10)
	for how, write := range map[string]func(r *rig, piece func(i int) string){
		"held open": func(r *rig, piece func(i int) string) {
			f, err := os.Create(r.path("s.toml"))
			r.must(err)
			for i := range names {
				_, err := f.WriteString(piece(i))
				r.must(err)
				time.Sleep(60 * time.Millisecond)
			}
			r.must(f.Close())
		},
		"opened for each piece": func(r *rig, piece func(i int) string) {
			r.put("s.toml", "")
			for i := range names {
				time.Sleep(60 * time.Millisecond)
				f, err := os.OpenFile(r.path("s.toml"), os.O_APPEND|os.O_WRONLY, 0)
				r.must(err)
				_, err = f.WriteString(piece(i))
				r.must(err)
				r.must(f.Close())
			}
		},
		"from nothing": func(r *rig, piece func(i int) string) {
			r.must(os.Remove(r.path("s.toml")))
			r.put("s.toml", "# new\n")
			for i := range names {
				time.Sleep(60 * time.Millisecond)
				f, err := os.OpenFile(r.path("s.toml"), os.O_APPEND|os.O_WRONLY, 0)
				r.must(err)
				_, err = f.WriteString(piece(i))
				r.must(err)
				r.must(f.Close())
			}
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			o := watching("*.toml")
			o.quiet = 3 * time.Second
			if how == "from nothing" { // a busy machine may pause the writer between its first two calls
				o.Debounce = 500 * time.Millisecond
			}
			r := start(t, func(r *rig) { r.write("s.toml", names...) }, o)
			r.want("", names...)
			written, pause := time.Now(), time.Duration(0)
			write(r, func(i int) string {
				pause, written = max(pause, time.Since(written)), time.Now()
				return strings.Replace(services(names[i]), "port = 80", "port = 81", 1)
			})
			if pause = max(pause, time.Since(written)); pause > o.quiet-time.Second {
				t.Skipf("the machine paused the writer for %v", pause)
			}
			r.neverLess(names)
			r.want("", names...)
			r.silent()
		})
	}
}

// TestSavedInPlace: an editor that truncates and writes a file makes one change. What a Reload finds meanwhile is judged
// at once.
func TestSavedInPlace(t *testing.T) {
	o := watching("s.toml")
	o.quiet = testLimit
	r := start(t, func(r *rig) { r.write("s.toml", "a", "b", "c") }, o)
	r.want("", "a", "b", "c")
	f, err := os.Create(r.path("s.toml"))
	r.must(err)
	r.wantNotice("s.toml is not valid: is empty and had 3 services: to have none, write services = {} in it, since ")
	if err := r.reload(); err == nil || !strings.Contains(err.Error(), "is empty and had 3 services") {
		t.Error("reload:", err)
	}
	r.want("is empty", "a", "b", "c")
	_, err = f.WriteString(services("a", "b", "c", "d"))
	r.must(err)
	r.want("", "a", "b", "c", "d")
	r.must(f.Close())
	if n := r.source.Notices(); len(n) != 0 {
		t.Errorf("%q", n)
	}
}

// TestRenamedOverIsWhole: a file that was written, and renamed over another in a later tick, is served at once, however
// small it is. So is one that a link leads to, and any file at a Reload.
func TestRenamedOverIsWhole(t *testing.T) {
	o := watching("s.toml", "l.toml")
	o.quiet = time.Hour
	r := start(t, func(r *rig) {
		r.write("s.toml", "a", "b", "c")
		r.write("1", "k", "l")
		r.must(os.Symlink("1", r.path("l.toml")))
	}, o)
	r.want("", "a", "b", "c", "k", "l")
	r.write("new", "a")
	time.Sleep(2 * fileTick())
	r.must(os.Rename(r.path("new"), r.path("s.toml")))
	r.want("", "a", "k", "l")
	r.write("2", "l")
	r.must(os.Symlink("2", r.path("new")))
	r.must(os.Rename(r.path("new"), r.path("l.toml")))
	r.want("", "a", "l")
	r.put("s.toml", "services = {}\n")
	r.wantNotice("s.toml would end a, since ")
	r.must(r.reload())
	r.want("", "l")
}

// TestAlwaysChanging: a file that differs at every reading, such as one in /proc, is read now and then, and refused
// after maxWait.
func TestAlwaysChanging(t *testing.T) {
	now := time.Now()
	g := running()
	const path = "/proc/self/status"
	g.take(path, read(path), false, now)
	for range 30 {
		next := g.next()
		if next.Before(now.Add(time.Second)) {
			t.Fatalf("due again after %v", next.Sub(now))
		}
		now = next
		g.take(path, read(path), false, now)
	}
	if _, err := g.outcome(); err == nil || !strings.Contains(err.Error(), "does not stop changing") {
		t.Error(err)
	}
}

// TestHalfWrittenAtStart: a file that was truncated just before the start waits, too.
func TestHalfWrittenAtStart(t *testing.T) {
	r := &rig{T: t, dir: t.TempDir()}
	r.write("s.toml", "a", "b", "c")
	o, _ := r.keeping("s.toml")
	o.quiet = 4 * time.Second
	r.run(o)
	r.want("", "a", "b", "c")
	r.stop()
	r.write("s.toml", "a")
	r.run(o)
	r.want("", "a", "b", "c")
	r.write("s.toml", "a", "b", "c", "d")
	r.neverLess([]string{"a", "b", "c"})
	r.want("", "a", "b", "c", "d")
}

// TestFolderVanishes: the services of a directory that is moved away stay, also over a restart, until it is back. A file
// that leaves an existing directory takes its services away.
func TestFolderVanishes(t *testing.T) {
	r := &rig{T: t, dir: t.TempDir()}
	r.must(os.MkdirAll(r.path("1/s.d"), 0o755))
	r.must(os.Symlink("1", r.path("etc")))
	r.write("1/s.d/a.toml", "a")
	r.write("1/s.d/b.toml", "b")
	o, _ := r.keeping("etc/s.d/*.toml")
	o.Paths = append(o.Paths, "never/*.toml")
	const gone = "etc/s.d: is not there and had 2 files: their last good content is served"
	r.run(o)
	r.want("", "a", "b")
	r.must(os.Rename(r.path("1/s.d"), r.path("1/away")))
	r.want(gone, "a", "b")
	if err := r.reload(); err == nil {
		t.Error("reload is content")
	}
	r.must(os.Rename(r.path("1/away"), r.path("1/s.d")))
	r.want("", "a", "b")

	// A release without the directory, and one with another.
	r.must(os.Mkdir(r.path("2"), 0o755))
	r.must(os.Symlink("2", r.path("new")))
	r.must(os.Rename(r.path("new"), r.path("etc")))
	r.want(gone, "a", "b")
	r.stop()
	r.run(o)
	var rejected *sources.RejectedError
	if rejected, _ = r.want(gone, "a", "b").(*sources.RejectedError); rejected.Incomplete || len(rejected.Stale) != 2 {
		t.Errorf("%+v", rejected)
	}
	r.must(os.MkdirAll(r.path("3/s.d"), 0o755))
	r.write("3/s.d/b.toml", "b", "c")
	r.must(os.Symlink("3", r.path("new")))
	r.must(os.Rename(r.path("new"), r.path("etc")))
	r.want("", "b", "c")
	r.must(os.Remove(r.path("3/s.d/b.toml")))
	r.want("")
	r.must(os.Remove(r.path("3/s.d")))
	r.silent()
}

// TestFolderRemoved: rm -r removes the files first. If many go at once, their services stay until it is known whether
// the directory goes, too.
func TestFolderRemoved(t *testing.T) {
	o := watching("s.d/*.toml")
	o.quiet = 4 * time.Second
	names := letters(20)
	r := start(t, func(r *rig) {
		r.must(os.Mkdir(r.path("s.d"), 0o755))
		for _, n := range names {
			r.write("s.d/"+n+".toml", n)
		}
	}, o)
	r.want("", names...)
	for _, n := range names[:19] {
		r.must(os.Remove(r.path("s.d/" + n + ".toml")))
	}
	r.wantNotice("19 of 20 service files are gone")
	r.must(os.RemoveAll(r.path("s.d")))
	r.want("had 20 files", names...)
	r.must(os.Mkdir(r.path("s.d"), 0o755))
	r.want("")
}

// TestEditCost: an edit of one of many files reads only that file.
func TestEditCost(t *testing.T) {
	const many = 1000
	dir := t.TempDir()
	for i := range many {
		text := fmt.Sprintf("[services.s%d]\nclusterIP = \"10.96.%d.%d\"\nports = [ { port = 80 } ]\n", i, i/250, i%250+1)
		if err := os.WriteFile(fmt.Sprintf("%s/%04d.toml", dir, i), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, err := New(Options{Paths: []string{dir + "/*.toml"}})
	if err != nil {
		t.Fatal(err)
	}
	f := s.follow()
	defer f.close()
	f.now = func() time.Time { return time.Now().Add(time.Minute) } // the files are old
	cost := func() (stats, lists, reads int) {
		stats, lists, reads = f.stats+f.listing.stats, f.listing.listed, f.reads
		f.stats, f.reads, f.listing.stats, f.listing.listed = 0, 0, 0, 0
		return
	}
	want := func(what string, wantStats, wantLists, wantReads int) {
		t.Helper()
		if stats, lists, reads := cost(); stats > wantStats || lists > wantLists || reads > wantReads {
			t.Errorf("%s: %d files asked for, %d directories listed, %d files read; want at most %d, %d, %d",
				what, stats, lists, reads, wantStats, wantLists, wantReads)
		}
	}
	f.first()
	want("a start", many+10, 1, many)
	path := dir + "/0500.toml"
	event := func(path string) {
		f.note(fsnotify.Event{Name: path})
		f.read(scope{})
	}
	if err := os.WriteFile(path, []byte(services("x")), 0o644); err != nil {
		t.Fatal(err)
	}
	event(path)
	want("an edit", 2, 0, 1)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	event(path)
	want("a removal", 1, 0, 0)
	f.now = func() time.Time { return time.Now().Add(2 * time.Minute) }
	f.read(scope{})
	want("its end", many+10, 1, 0)
	if table, err := f.guard.outcome(); table.Services.Len() != many-1 || err != nil {
		t.Error(table.Services.Len(), err)
	}
	for i := range 10 {
		f.note(fsnotify.Event{Name: fmt.Sprintf("%s/temp%d.toml", dir, i)})
	}
	f.read(scope{})
	want("files that came and went", 10, 0, 0)
	if len(f.guard.pending) > 0 {
		t.Errorf("waits for %d files that are not there", len(f.guard.pending))
	}
	f.relist = true
	f.read(scope{})
	want("lost events", many+10, 1, 0)
	f.read(scope{all: true})
	want("a full reading", many+10, 1, many)
}

// TestRefusedCost: the problems of a large file are reported without decoding all of it.
func TestRefusedCost(t *testing.T) {
	const services = 50_000
	for how, c := range map[string]struct {
		line  func(i int) string
		lines int
		most  uint64 // times the text
	}{
		"too many lines": {func(i int) string { return "# a comment that is as long as some\n" }, 1_100_000, 1},
		"all bad":        {func(i int) string { return fmt.Sprintf("[services.s%d]\nclusterIP = 1\nports = [{ port = 80 }]\n", i) }, services, 20},
		"one bad": {func(i int) string {
			if i == services/2 {
				return "[services.bad]\nprots = 1\n"
			}
			return fmt.Sprintf("[services.s%d]\nclusterIP = \"10.%d.%d.%d\"\nports = [{ port = 80 }]\n", i, i/62500, i/250%250, i%250+1)
		}, services, 240}, // 156, by the library: garbage, of one section after the other
	} {
		t.Run(how, func(t *testing.T) {
			var b strings.Builder
			for i := range c.lines {
				b.WriteString(c.line(i))
			}
			data := []byte(b.String())
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _, problems := Decode("f.toml", data)
			runtime.ReadMemStats(&after)
			if len(problems) == 0 {
				t.Fatal("not refused")
			}
			took := after.TotalAlloc - before.TotalAlloc
			t.Logf("%d bytes for a text of %d: %v", took, len(data), problems[0])
			if took > c.most*uint64(len(data)) {
				t.Errorf("more than %d times the text", c.most)
			}
		})
	}
}

// TestGoneWhileWaitedFor: a file that is removed while it is waited for is not there, and nothing is due.
func TestGoneWhileWaitedFor(t *testing.T) {
	o := watching("s.toml")
	o.quiet = testLimit
	r := start(t, func(r *rig) { r.write("s.toml", letters(10)...) }, o)
	r.want("", letters(10)...)
	r.put("s.toml", "")
	r.must(os.Remove(r.path("s.toml")))
	r.want("is not there", letters(10)...)
	if n := r.source.Notices(); len(n) > 0 {
		t.Errorf("%q", n)
	}
}

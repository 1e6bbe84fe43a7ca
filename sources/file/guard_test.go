package file

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/sources"
)

// web is a service at an address with these endpoints, the last number of each.
func web(i int, endpoints ...int) string {
	var quoted []string
	for _, e := range endpoints {
		quoted = append(quoted, fmt.Sprintf(`"10.2.1.%d"`, e))
	}
	return fmt.Sprintf("[services.web%d]\nclusterIP = \"10.96.0.%d\"\nport = 80\nbackends = [%s]\n",
		i, i, strings.Join(quoted, ", "))
}

// TestJudge: what becomes of a file that had two services. Its new content is 1 ms old at the first look.
func TestJudge(t *testing.T) {
	const path, second, half = "/etc/s.toml", time.Second, 500 * time.Microsecond
	was := web(1, 1, 2) + web(2, 1, 2)
	written := time.Unix(1e9, 5e8)
	inPlace := func(text string) look {
		id := identity{ino: 1, written: written.UnixNano(), change: written.UnixNano()}
		return look{id: id, content: Content{[]byte(text), true}}
	}
	over := func(text string, renamed time.Duration) look {
		l := inPlace(text)
		l.id.ino, l.renamed = 2, written.Add(renamed).UnixNano()
		return l
	}
	moved := func(text string) look {
		l := over(text, -time.Hour)
		l.id.change += int64(half)
		return l
	}
	linked := func(text string, later time.Duration) look {
		l := inPlace(text)
		l.real = "/other"
		l.id.written += int64(later)
		return l
	}
	broken := func(err error) look { return look{id: identity{ino: 1}, err: err} }
	for _, c := range []struct {
		what  string
		now   look
		asked bool
		waits time.Duration // for how long it is held; 0: it counts at once
		then  string        // what is said after it; "": it is accepted
	}{
		{"in place, an endpoint more", inPlace(web(1, 1, 2, 3) + web(2, 1, 2)), false, 50 * time.Millisecond, ""},
		{"in place, a service more", inPlace(was + web(3, 1)), false, 50 * time.Millisecond, ""},
		{"in place, the same", inPlace(was), false, 50 * time.Millisecond, ""},
		{"in place, an endpoint less", inPlace(web(1, 1, 2) + web(2, 1)), false, second, ""},
		{"in place, another VIP", inPlace(web(1, 1, 2) + strings.Replace(web(2, 1, 2), "96.0.2", "96.0.3", 1)), false, second, ""},
		{"in place, no service", inPlace(""), false, second, "is empty and had 2 services"},
		{"in place, a service less", inPlace(web(1, 1, 2)), false, 10 * second, ""},
		{"in place, no endpoint", inPlace(web(1, 1, 2) + web(2)), false, 10 * second, ""},
		{"in place, not valid", inPlace(was + "[services."), false, second, "not TOML"},
		{"in place, a service less, asked for", inPlace(web(1, 1, 2)), true, 0, ""},
		{"in place, not valid, asked for", inPlace(was + "[services."), true, 0, "not TOML"},
		{"renamed over, a service more", over(was+web(3, 1), 0), false, 0, ""},
		{"renamed over or created, a service less", over(web(1, 1, 2), 0), false, second, ""},
		{"created, and another name came since", over(web(1, 1, 2), time.Millisecond), false, second, ""},
		{"linked to another, a service less", linked(web(1, 1, 2), 0), false, 9 * time.Millisecond, ""}, // a tick after it
		{"linked to one of tomorrow", linked(web(1, 1, 2), 24*time.Hour), false, second, ""},
		{"renamed over later, a service less", moved(web(1, 1, 2)), false, 0, ""},
		{"renamed over later, not valid", moved("[services."), false, 0, "not TOML"},
		{"created, and written since", over(web(1, 1, 2), -time.Millisecond), false, 10 * second, ""},
		{"gone", look{absent: true}, false, second, ""},
		{"gone, and named", look{absent: true, named: true}, false, 50 * time.Millisecond, "is not there"},
		{"gone, asked for", look{absent: true}, true, 0, ""},
		{"gone with its directory", look{hidden: true}, false, 0, ""},
		{"no file", broken(readable(unix.Statx_t{Mode: unix.S_IFIFO})), false, 0, "is not a regular file but a FIFO"},
		{"no right", broken(&os.PathError{Err: syscall.EACCES}), false, 0, "permission denied"},
		{"changing", broken(errChanging), false, maxWait, "does not stop changing"},
		{"changing, asked for", broken(errChanging), true, 0, "does not stop changing"},
	} {
		at := written.Add(time.Millisecond)
		begin := at
		g := running()
		takes(g, path, was)
		for {
			g.take(path, c.now, c.asked, at)
			p := g.pending[path]
			if p.verdict.action != hold {
				break
			}
			if !p.verdict.until.After(at) {
				t.Fatalf("%s: held until a time that is over", c.what)
			}
			at = p.verdict.until
		}
		if waited := at.Sub(begin); waited != c.waits {
			t.Errorf("%s: judged after %v, want %v", c.what, waited, c.waits)
		}
		said := ""
		if f := g.files[path]; f != nil && len(f.problems) > 0 {
			said = f.problems[0].Message
		}
		if !strings.Contains(said, c.then) || (said == "") != (c.then == "") {
			t.Errorf("%s: said %q, want %q", c.what, said, c.then)
		}
	}
}

// TestHalfWrittenRemovesNothing: whatever is written in place, or in a new file, in whatever pieces, nothing that was
// served goes while the pauses are shorter than a second; and no service while they are shorter than ten, in place.
func TestHalfWrittenRemovesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		endpoints := rapid.SliceOfNDistinct(rapid.IntRange(1, 9), 1, 5, func(i int) int { return i })
		file := func(what string) (text string) {
			for i := range rapid.IntRange(1, 5).Draw(t, what) {
				text += web(i+1, endpoints.Draw(t, "endpoints")...)
			}
			return text
		}
		const path = "/etc/s.toml"
		steps := []time.Duration{time.Millisecond, 60 * time.Millisecond, 1500 * time.Millisecond, time.Minute}
		pause := rapid.SampledFrom([]time.Duration{900 * time.Millisecond, 9 * time.Second}).Draw(t, "pause")
		g := running()
		takes(g, path, file("services before"))
		before := g.files[path].served.reading.table
		at := time.Now().Add(time.Minute)
		text := file("services after")
		id, renamed := identity{ino: 1}, at.Add(-time.Minute)
		for end := at.Add(maxWait - pause); at.Before(end); {
			cut := rapid.IntRange(0, len(text)).Draw(t, "written")
			if rapid.Bool().Draw(t, "whole services") {
				cut = max(0, strings.LastIndex(text[:cut], "[services."))
			}
			if pause < time.Second { // a service may go with a pause more in a file that looks renamed
				if rapid.Bool().Draw(t, "removed and created") {
					id.ino, id.born, renamed = id.ino+1, at.UnixNano(), at
				} else if rapid.Bool().Draw(t, "another name came") {
					renamed = at
				}
			}
			id.size, id.written, id.change = int64(cut), at.UnixNano(), at.UnixNano()
			now := look{id: id, renamed: renamed.UnixNano(), content: Content{[]byte(text[:cut]), true}}
			next := at.Add(pause)
			for at.Before(next) {
				g.take(path, now, false, at)
				table, _ := g.outcome()
				lost := lossOf(before, table, sources.Compare(before, table))
				if lost.services > 0 || lost.parts > 0 && pause < time.Second {
					t.Fatalf("%v: %v", text[:cut], lost)
				}
				before = table
				at = at.Add(min(pause, rapid.SampledFrom(steps).Draw(t, "look after")))
			}
		}
	})
}

// TestHoldsByTheMonotonicClock: no hold lasts until a time of the wall clock, which may be set back.
func TestHoldsByTheMonotonicClock(t *testing.T) {
	at := time.Now()
	for what, now := range map[string]look{
		"in place": {id: identity{ino: 1, written: at.Add(-100 * time.Millisecond).UnixNano()}},
		"a link":   {id: identity{ino: 1, written: at.UnixNano()}, real: "/other"},
	} {
		g := running()
		takes(g, "/etc/s.toml", web(1, 1, 2))
		now.content = Content{[]byte(web(1, 1)), true}
		g.take("/etc/s.toml", now, false, at)
		v := g.pending["/etc/s.toml"].verdict
		if v.action != hold || !strings.Contains(v.until.String(), " m=") {
			t.Errorf("%s: action %d until %v", what, v.action, v.until)
		}
	}
}

// TestStartForgetsNothing: at a start, a file that vanishes between the list and the read keeps its copy and is served
// for a while, and one that is being written is read again.
func TestStartForgetsNothing(t *testing.T) {
	const gone, changing = "/etc/s.d/gone.toml", "/etc/s.d/changing.toml"
	g := running()
	takes(g, gone, web(1, 1))
	g.starting, g.unsaved = true, copies{}
	at := time.Now()
	g.take(gone, look{absent: true}, false, at)
	g.take(changing, look{err: errChanging}, false, at)
	for _, path := range []string{gone, changing} {
		if v := g.pending[path].verdict; v.action != hold {
			t.Errorf("%s: action %d", path, v.action)
		}
	}
	if table, _ := g.outcome(); len(g.unsaved) > 0 || table.Services.Len() != 1 {
		t.Errorf("forgot %v, serves %d services", g.unsaved, table.Services.Len())
	}
}

// TestLosesPart: what makes a service reachable in fewer ways is a loss, and the opposite is none.
func TestLosesPart(t *testing.T) {
	yes := true
	for what, is := range map[string]func(s *sources.Service){
		"a port":                    func(s *sources.Service) { s.Ports = s.Ports[:1] },
		"a node port":               func(s *sources.Service) { s.Ports[0].NodePort = 0 },
		"the announcement":          func(s *sources.Service) { s.Announce = nil },
		"the health check's port":   func(s *sources.Service) { s.HealthCheckNodePort = 0 },
		"the firewall mark":         func(s *sources.Service) { s.FWMark = 0 },
		"the type":                  func(s *sources.Service) { s.Type = sources.NodePort },
		"the check of its backends": func(s *sources.Service) { s.HealthCheck = nil },
	} {
		make := func() *sources.Service {
			return &sources.Service{
				Type: sources.LoadBalancer, FWMark: 7, HealthCheckNodePort: 30000, Announce: &yes,
				HealthCheck: &sources.HealthCheck{},
				Ports:       []sources.Port{{Port: 80, Protocol: sources.TCP, NodePort: 30080}, {Port: 81, Protocol: sources.TCP}},
			}
		}
		less := make()
		is(less)
		if !losesPart(make(), less) {
			t.Errorf("%s goes, and nothing is lost", what)
		}
		if losesPart(less, make()) {
			t.Errorf("%s comes, and something is lost", what)
		}
	}
}

// TestQuotedNoMore: warnings of kept content are not shown if the present file has the same text and may not be quoted.
func TestQuotedNoMore(t *testing.T) {
	secret := sources.Problem{Message: "sesame"}
	text := []byte(web(1, 1))
	before, _ := weigh("/etc/s.toml", "", nil, Content{text, true}, time.Now())
	before.next.warnings = []sources.Problem{secret}
	v, _ := weigh("/etc/s.toml", "", before.next, Content{text, false}, time.Now())
	if len(v.next.warnings) != 1 || v.next.warnings[0].Message != unquoted {
		t.Errorf("%v", v.next.warnings)
	}
}

// TestEventsSayLook: whatever events of a change come, in any order, of any kind, with any others, or none but that
// some were lost: the verdicts are the same.
func TestEventsSayLook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "look")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		at := time.Now()
		names := []string{dir + "/a.toml", dir + "/b.toml", dir + "/c.toml"}
		var followers []*follower
		for range 3 {
			s, err := New(Options{Paths: []string{dir + "/*.toml", dir + "/c.toml"}})
			if err != nil {
				t.Fatal(err)
			}
			f := s.follow()
			f.now = func() time.Time { return at }
			f.first()
			followers = append(followers, f)
		}
		later := rapid.SampledFrom([]time.Duration{0, 20 * time.Millisecond, 2 * time.Second, time.Minute})
		kinds := rapid.OneOf(
			rapid.SampledFrom([]fsnotify.Op{fsnotify.Create, fsnotify.Write, fsnotify.Remove, fsnotify.Rename, fsnotify.Chmod}),
			rapid.Custom(func(t *rapid.T) fsnotify.Op { return fsnotify.Op(rapid.IntRange(1, 31).Draw(t, "kinds")) }))
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			changed := change(t, names)
			at = at.Add(later.Draw(t, "later"))
			followers[0].note(fsnotify.Event{Name: changed, Op: kinds.Draw(t, "kind")})
			for _, name := range rapid.Permutation(append(names, changed)).Draw(t, "names") {
				followers[1].note(fsnotify.Event{Name: name, Op: kinds.Draw(t, "kind")})
			}
			followers[2].relist = true // events were lost
			var want string
			for i, f := range followers {
				f.read(scope{})
				if got := state(f); i == 0 {
					want = got
				} else if got != want {
					t.Fatalf("follower %d has\n%s\nfollower 0 has\n%s", i, got, want)
				}
			}
		}
	})
}

// change changes one of some files, and returns its name.
func change(t *rapid.T, names []string) string {
	name := rapid.SampledFrom(names).Draw(t, "file")
	texts := []string{"", "[services.", "services = {}\n", web(1, 1), web(1, 1, 2), web(2, 1) + web(1, 1)}
	text := rapid.SampledFrom(texts).Draw(t, "text")
	to := name
	switch way := rapid.SampledFrom([]string{"in place", "renamed over", "removed", "a mode"}).Draw(t, "way"); way {
	case "removed":
		_ = os.Remove(name)
		return name
	case "a mode":
		_ = os.Chmod(name, 0o600)
		return name
	case "renamed over":
		to += ".new"
	}
	if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if to != name {
		if err := os.Rename(to, name); err != nil {
			t.Fatal(err)
		}
	}
	return name
}

// state is what a follower serves and says, and what it waits for.
func state(f *follower) string {
	var b strings.Builder
	table, err := f.guard.outcome()
	fmt.Fprintln(&b, err)
	for _, s := range table.Services.All() {
		b.WriteString(filepath.Base(s.Origin.File) + " " + dump(*s))
	}
	for _, path := range f.guard.paths() {
		if p := f.guard.pending[path]; p.verdict.action == hold {
			fmt.Fprintln(&b, filepath.Base(path), p.verdict.why, p.verdict.until)
		}
	}
	return b.String()
}

package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/proxy/status"
)

var quiet = slog.New(slog.DiscardHandler)

// serving starts a server on its own socket. It runs until stop is called or the
// test ends.
func serving(t *testing.T, s *control.Server) (c control.Client, stop func()) {
	t.Helper()
	if s.Events == nil {
		s.Events = new(events.Ring)
	}
	s.Log = quiet
	c.Socket = filepath.Join(t.TempDir(), "s")
	l, err := control.Listen(c.Socket, quiet)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	ended := false
	stop = func() {
		cancel()
		if !ended {
			ended = true
			if err := <-done; err != nil {
				t.Errorf("Serve: %v", err)
			}
		}
	}
	t.Cleanup(stop)
	return c, stop
}

func code(err error) int {
	var e *cli.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return cli.Failed
}

func TestStatus(t *testing.T) {
	c, _ := serving(t, &control.Server{Status: func(context.Context) status.Status {
		return status.Status{Daemon: status.Daemon{Version: "1"}, Services: []status.Service{{
			Name: "default/web", Endpoints: []status.Endpoint{{State: status.EndpointServing}}, Backends: status.Backends{Serving: 1},
		}}}
	}})
	for _, endpoints := range []bool{true, false} {
		st, err := c.Status(t.Context(), endpoints)
		if err != nil {
			t.Fatal(err)
		}
		if s := st.Services[0]; st.Daemon.Version != "1" || s.Backends.Serving != 1 || (len(s.Endpoints) == 1) != endpoints {
			t.Errorf("endpoints %v: %+v", endpoints, st)
		}
	}
}

func TestDetailIsAskedForByName(t *testing.T) {
	c, _ := serving(t, &control.Server{Detail: func(_ context.Context, names []string) status.Status {
		return status.Status{Problems: names}
	}})
	if st, err := c.Detail(t.Context(), []string{"default/web", "all", "a&b"}); err != nil || !slices.Equal(st.Problems, []string{"default/web", "all", "a&b"}) {
		t.Errorf("asked for %q, %v", st.Problems, err)
	}
}

func TestReload(t *testing.T) {
	asked := make(chan struct{}, 1)
	result, failure := control.Reloaded{}, error(nil)
	c, _ := serving(t, &control.Server{Reload: func(context.Context) (control.Reloaded, error) {
		r, err := result, failure
		asked <- struct{}{}
		return r, err
	}})
	reload := func(wait bool) error {
		t.Helper()
		r, err := c.Reload(t.Context(), wait)
		<-asked
		return errors.Join(err, r.Err())
	}
	if err := reload(true); err != nil {
		t.Errorf("all accepted: %v", err)
	}
	result = control.Reloaded{Rejected: []string{"a.toml:3: unknown key", "b.toml:1: cut"}, Kept: []string{"a.toml", "b.toml"}}
	if err := reload(true); code(err) != cli.Config || !strings.Contains(err.Error(), "b.toml:1") {
		t.Errorf("rejected: %v", err)
	}
	if err := reload(false); err != nil {
		t.Errorf("without waiting: %v", err)
	}
	failure = errors.New("no such thing")
	if err := reload(true); code(err) != cli.Failed || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("failed: %v", err)
	}
}

func TestEventsAreFollowed(t *testing.T) {
	ring := new(events.Ring)
	c, stop := serving(t, &control.Server{Events: ring})
	for i := range events.Size + 3 {
		ring.Add(events.Event{Text: fmt.Sprint(i + 1)})
	}
	var got []events.Event
	if err := c.Events(t.Context(), events.Size, false, func(e events.Event) error { got = append(got, e); return nil }); err != nil || len(got) != 3 {
		t.Errorf("%d events after %d, %v; want 3", len(got), events.Size, err)
	}
	next := make(chan events.Event)
	done := make(chan error, 1)
	go func() {
		done <- c.Events(t.Context(), 0, true, func(e events.Event) error { next <- e; return nil })
	}()
	if e := <-next; e.Kind != events.Lost || !strings.HasPrefix(e.Text, "3 events") {
		t.Errorf("first %+v, want the 3 that are lost", e)
	}
	for range events.Size {
		<-next
	}
	ring.Add(events.Event{Text: "late"})
	if e := <-next; e.Text != "late" || e.Seq != events.Size+4 {
		t.Errorf("got %+v, want what was added late", e)
	}
	stop()
	if err := <-done; code(err) != cli.NoDaemon {
		t.Errorf("after the daemon's end: %v, want exit code %d", err, cli.NoDaemon)
	}
}

// Who follows the events goes on over restarts of the daemon and over lost connections: each event comes once, also if
// the next run has had as many events already.
func TestFollowGoesOnOverARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	run := func(ring *events.Ring) (stop func()) {
		l, err := control.Listen(path, quiet)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		s := &control.Server{Events: ring, Log: quiet}
		go func() { done <- s.Serve(ctx, l) }()
		return func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	first, second := new(events.Ring), new(events.Ring)
	first.Add(events.Event{Text: "1"}, events.Event{Text: "2"})
	second.Add(events.Event{Text: "3"}, events.Event{Text: "4"}, events.Event{Text: "5"})
	stop := run(first)
	got, connected := make(chan string, 100), make(chan bool, 100)
	ctx, cancel := context.WithCancel(t.Context())
	followed := make(chan error, 1)
	go func() {
		followed <- control.Client{Socket: path}.Follow(ctx, func(e events.Event) error { got <- e.Text; return nil }, func(b bool) { connected <- b })
	}()
	want := func(texts ...string) {
		t.Helper()
		for _, text := range texts {
			if have := <-got; have != text {
				t.Errorf("event %s, want %s", have, text)
			}
		}
	}
	want("1", "2")
	stop()
	if <-connected {
		t.Error("connected while no daemon runs")
	}
	stop = run(second)
	want("3", "4", "5")
	if !<-connected {
		t.Error("not connected again")
	}
	second.Add(events.Event{Text: "6"})
	want("6")
	cancel()
	if err := <-followed; err != nil {
		t.Error(err)
	}
	stop()
	if len(got) > 0 || len(connected) > 0 {
		t.Errorf("%d events came twice, %d connections", len(got), len(connected))
	}
	if err := (control.Client{Socket: path}).Follow(t.Context(), nil, nil); code(err) != cli.NoDaemon {
		t.Errorf("without a daemon: %v, want exit code %d", err, cli.NoDaemon)
	}
}

func TestFollowersAreBounded(t *testing.T) {
	ring := new(events.Ring)
	ring.Add(events.Event{Text: "one"})
	c, _ := serving(t, &control.Server{Events: ring})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	followed, done := make(chan struct{}), make(chan error)
	const many = 20
	for range many {
		go func() {
			done <- c.Events(ctx, 0, true, func(events.Event) error { followed <- struct{}{}; return nil })
		}()
	}
	refused, follow := 0, 0
	for refused+follow < many {
		select {
		case <-followed:
			follow++
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), "too many") {
				t.Fatal(err)
			}
			refused++
		}
	}
	if follow != 16 {
		t.Errorf("%d follow, want 16", follow)
	}
	cancel()
	for range follow {
		if err := <-done; err != nil {
			t.Errorf("after we ended it: %v", err)
		}
	}
}

func TestNobodyThere(t *testing.T) {
	c := control.Client{Socket: filepath.Join(t.TempDir(), "s")}
	if _, err := c.Status(t.Context(), true); code(err) != cli.NoDaemon || !strings.Contains(err.Error(), "does not run") {
		t.Errorf("no socket: %v", err)
	}
	dead(t, c.Socket)
	if _, err := c.Reload(t.Context(), true); code(err) != cli.NoDaemon || !strings.Contains(err.Error(), "does not run") {
		t.Errorf("a dead daemon's socket: %v", err)
	}
}

// dead leaves a socket that no process listens at.
func dead(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
}

func TestListenReplacesADeadSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	dead(t, path)
	dead(t, path+"~") // of a daemon that died before it renamed its socket
	l, err := control.Listen(path, quiet)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v; want mode 0660", st.Mode(), err)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Errorf("no process listens at the new one: %v", err)
	} else {
		conn.Close()
	}
	l.Close()
	l.Close()
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 0 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}

func TestListenSaysWhatIsWrong(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 120))
	if _, err := control.Listen(long, quiet); err == nil || !strings.Contains(err.Error(), "at most 107 bytes") {
		t.Errorf("too long: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Listen(filepath.Join(file, "s"), quiet); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a file for a folder: %v", err)
	}
}

// A symbolic link that the service's user made is not followed.
func TestListenFollowsNoLinks(t *testing.T) {
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("victim"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "made", "s")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + "~"} {
		if err := os.Symlink(victim, name); err != nil {
			t.Fatal(err)
		}
	}
	l, err := control.Listen(path, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if st, err := os.Lstat(path); err != nil || st.Mode().Type() != os.ModeSocket {
		t.Error(st, err)
	}
	if st, err := os.Stat(victim); err != nil || st.Mode() != 0o600 {
		t.Error(st, err)
	}
}

// Invalid requests are refused and delay no other.
func TestInvalidRequests(t *testing.T) {
	c, _ := serving(t, &control.Server{Status: func(context.Context) status.Status { return status.Status{} }})
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", c.Socket)
		},
	}}
	for _, r := range []struct {
		method, path, body string
		want               int
	}{
		{"GET", "/", "", http.StatusNotFound},
		{"GET", "/v2/status", "", http.StatusNotFound},
		{"DELETE", "/v1/status", "", http.StatusMethodNotAllowed},
		{"GET", "/v1/reload", "", http.StatusMethodNotAllowed},
		{"GET", "/v1/events?after=-1", "", http.StatusBadRequest},
		{"GET", "/v1/events?after=99999999999999999999", "", http.StatusBadRequest},
		{"POST", "/v1/reload", strings.Repeat("x", 1<<20), http.StatusRequestEntityTooLarge},
		{"GET", "/v1/status?" + strings.Repeat("x", 1<<16), "", http.StatusRequestHeaderFieldsTooLarge},
	} {
		req, err := http.NewRequest(r.method, "http://svcproxy"+r.path, strings.NewReader(r.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			// The server may close the connection before it has read all of a long body.
			if r.body == "" {
				t.Errorf("%s %.40s: %v", r.method, r.path, err)
			}
			continue
		}
		resp.Body.Close()
		if resp.StatusCode != r.want {
			t.Errorf("%s %.40s: %d, want %d", r.method, r.path, resp.StatusCode, r.want)
		}
	}
	if _, err := c.Status(t.Context(), true); err != nil {
		t.Errorf("after all that: %v", err)
	}
}

func TestReloadedIsStable(t *testing.T) {
	text, err := json.Marshal(control.Reloaded{
		Rejected: []string{"a"}, Kept: []string{"b"}, Restart: []string{"c"}, Failed: []string{"d"}, Conflicts: []string{"e"}, Warnings: []string{"f"},
	})
	if want := `{"rejected":["a"],"kept":["b"],"restart":["c"],"failed":["d"],"conflicts":["e"],"warnings":["f"]}`; err != nil || string(text) != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
}

// The exit code is that of the worst finding of a reload. Warnings have none.
func TestReloadedErr(t *testing.T) {
	for _, c := range []struct {
		change func(*control.Reloaded)
		want   int
	}{
		{func(*control.Reloaded) {}, cli.OK},
		{func(r *control.Reloaded) { r.Warnings = []string{"w"} }, cli.OK},
		{func(r *control.Reloaded) { r.Conflicts = []string{"c"} }, cli.Degraded},
		{func(r *control.Reloaded) { r.Conflicts, r.Failed = []string{"c"}, []string{"f"} }, cli.Failed},
		{func(r *control.Reloaded) { r.Rejected, r.Failed = []string{"r"}, []string{"f"} }, cli.Config},
	} {
		r := control.Nothing()
		c.change(&r)
		if got := cli.Code(r.Err()); got != c.want {
			t.Errorf("%+v: exit %d, want %d", r, got, c.want)
		}
	}
}

// Idle connections of members of the group are bounded, and root still gets in.
func TestRoomForRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be another user, too")
	}
	c, _ := serving(t, &control.Server{Status: func(context.Context) status.Status { return status.Status{} }})
	for dir := c.Socket; dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	var conns []net.Conn
	asUser(t, 65534, func() {
		for range 200 {
			conn, err := net.Dial("unix", c.Socket)
			if err != nil {
				t.Error(err)
				return
			}
			conns = append(conns, conn)
		}
	})
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	follow := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { follow <- c.Events(ctx, 0, true, func(events.Event) error { return nil }) }()
	for range 20 {
		if _, err := c.Status(t.Context(), true); err != nil {
			t.Errorf("root is locked out: %v", err)
		}
	}
	asUser(t, 65534, func() {
		conn, err := net.Dial("unix", c.Socket)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "GET /v1/status HTTP/1.0\r\n\r\n")
		if answer, err := io.ReadAll(conn); err != nil || !strings.Contains(string(answer), "200 OK") {
			t.Errorf("who asks is locked out by those who do not: %v %s", err, answer)
		}
	})
	select {
	case err := <-follow:
		t.Errorf("root's following has ended: %v", err)
	default:
	}
	cancel()
	<-follow
}

// asUser runs f on a thread of another user. The thread ends with f.
func asUser(t *testing.T, uid int, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
			t.Error(errno)
			return
		}
		f()
	}()
	<-done
}

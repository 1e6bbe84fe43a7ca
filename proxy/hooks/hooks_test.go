package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/proxy/events"
)

func message(kinds ...events.Kind) Message {
	n := Notifier{Version: "1.0.0", Node: "lb1"}
	var list []events.Event
	for _, k := range kinds {
		list = append(list, events.Event{Kind: k, Text: "it happened", Services: []string{"web"}})
	}
	return n.message(list, 2)
}

// A program reads the events as JSON, and has the newest in its environment. Its failure has its output.
func TestProgramIsTold(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only a program of root's is run")
	}
	dir := t.TempDir()
	program, out := filepath.Join(dir, "page"), filepath.Join(dir, "out")
	script := "#!/bin/sh\n" + `case $1 in fail) echo broken; exit 3;; hang) sleep 600;; leave) sleep 60 & exit;; esac
{ echo "$1|$SVCPROXY_NODE|$SVCPROXY_KIND|$SVCPROXY_EVENTS|$SVCPROXY_TEXT"; cat; } >"$2"` + "\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	m := message(events.EndpointDown, events.AllDown)
	if err := run(t.Context(), Config{Exec: []string{program, "a; b", out}}, m); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	first, rest, _ := strings.Cut(string(text), "\n")
	if want := "a; b|lb1|allDown|4|allDown: it happened: web"; first != want {
		t.Errorf("%s, want %s", first, want)
	}
	var got Message
	if err := json.Unmarshal([]byte(rest), &got); err != nil || got.Node != "lb1" || len(got.Events) != 2 || got.More != 2 {
		t.Errorf("%s: %v", rest, err)
	}
	if err := run(t.Context(), Config{Exec: []string{program, "fail"}}, m); err == nil || !strings.Contains(err.Error(), "exit status 3: broken") {
		t.Error(err)
	}
	if err := run(t.Context(), Config{Exec: []string{program, "leave"}}, m); err != nil {
		t.Error("a program that leaves a process behind is called again:", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := run(ctx, Config{Exec: []string{program, "hang"}}, m); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if err := os.Chmod(program, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), Config{Exec: []string{program}}, m); err == nil {
		t.Error("a program that anybody may write is run")
	}
	if err := run(t.Context(), Config{}, m); err != nil {
		t.Error(err)
	}
}

// A web server gets the JSON by POST. Errors do not have the path of the URL.
func TestWebServerIsTold(t *testing.T) {
	code := http.StatusNoContent
	var got Message
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || json.Unmarshal(body, &got) != nil {
			t.Errorf("%s %v %s", r.Method, r.Header, body)
		}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(code)
	}))
	defer server.Close()
	c := Config{Webhook: server.URL + "/secret"}
	if err := post(t.Context(), c, message(events.Blind)); err != nil || got.Text != "checkerBlind: it happened: web" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, code = range []int{http.StatusFound, http.StatusInternalServerError} {
		if err := post(t.Context(), c, message(events.Blind)); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d: %v", code, err)
		}
	}
	server.Close()
	if err := post(t.Context(), c, message(events.Blind)); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
	if err := post(t.Context(), Config{}, message(events.Blind)); err != nil {
		t.Error(err)
	}
}

// What happened in this run before Run, such as a fallback to another mode, is told. What an earlier run told is not.
func TestFrom(t *testing.T) {
	got := make(chan Message, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m Message
		_ = json.NewDecoder(r.Body).Decode(&m)
		got <- m
	}))
	defer server.Close()
	var ring events.Ring
	ring.Add(events.Event{Kind: events.Failed, Text: "earlier"}, events.Event{Kind: events.ModeFallback, Text: "no IPVS"})
	n := Notifier{Ring: &ring, From: 1, Log: slog.New(slog.DiscardHandler), Config: func() Config {
		return Config{Webhook: server.URL, MinInterval: time.Minute, Timeout: time.Minute}
	}}
	go n.Run(t.Context())
	if m := <-got; len(m.Events) != 1 || m.Events[0].Text != "no IPVS" {
		t.Errorf("%+v", m)
	}
}

// Calls have their interval, and tell of all events since the last one. A failure is tried again, but not for ever.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ring events.Ring
		ring.Add(events.Event{Kind: events.Failed, Text: "before"})
		n := Notifier{Ring: &ring, Log: slog.New(slog.DiscardHandler), Config: func() Config { return Config{MinInterval: 10 * time.Second, Timeout: time.Second} }}
		var told []string
		var fails atomic.Int32
		start := time.Now()
		ctx, end := context.WithCancel(t.Context())
		go n.follow(ctx, ring.Newest(), way{"test", func(_ context.Context, _ Config, m Message) error {
			line := time.Since(start).String()
			for _, e := range m.Events {
				line += " " + e.Text
			}
			told = append(told, line)
			if fails.Add(-1) >= 0 {
				return errors.New("busy")
			}
			return nil
		}})
		synctest.Wait()
		ring.Add(events.Event{Kind: events.EndpointDown, Text: "a"})
		time.Sleep(time.Second)
		ring.Add(events.Event{Kind: events.EndpointUp, Text: "b"}, events.Event{Kind: events.Draining, Text: "drains"}, events.Event{Kind: events.Table, Text: "table"})
		time.Sleep(2 * time.Second)
		ring.Add(events.Event{Kind: events.AllDown, Text: "c"})
		time.Sleep(20 * time.Second)
		fails.Store(1)
		ring.Add(events.Event{Kind: events.Blind, Text: "d"})
		time.Sleep(30 * time.Second)
		fails.Store(99)
		ring.Add(events.Event{Kind: events.Sees, Text: "e"})
		time.Sleep(5 * time.Minute)
		ring.Add(events.Event{Kind: events.EndpointDown, Text: "f"})
		time.Sleep(35 * time.Second)
		ring.Add(events.Event{Kind: events.EndpointUp, Text: "g"}) // is tried five times, too
		time.Sleep(5 * time.Minute)
		end()
		synctest.Wait()
		want := []string{"0s a", "10s b c", "23s d", "33s d", "53s e", "1m3s e", "1m13s e", "1m23s e", "1m33s e",
			"5m53s f", "6m3s f", "6m13s f", "6m23s f", "6m33s f g", "6m43s f g", "6m53s f g", "7m3s f g", "7m13s f g"}
		if strings.Join(told, "\n") != strings.Join(want, "\n") {
			t.Errorf("told:\n%s\nwant:\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
		}
	})
}

// The end does not lose what was not told: one last call has all of it. It waits 3 s for calls, and not for a program that
// the kill does not end.
func TestEnd(t *testing.T) {
	for _, c := range []struct {
		about string
		takes []time.Duration // each call; those that are left take no time
		fails int             // calls
		deaf  bool            // calls do not heed their context
		want  string
	}{
		{about: "at once", want: "0s a; 4s b c; end 4s"},
		{about: "slow", takes: []time.Duration{0, 2 * time.Second}, want: "0s a; 4s b c; end 6s"},
		{about: "a server that fails", fails: 9, want: "0s a; 4s a b c; end 4s"},
		{about: "a call that was begun ends", takes: []time.Duration{6 * time.Second}, want: "0s a; 6s b c; end 6s"},
		{about: "one that fails is made again", takes: []time.Duration{5 * time.Second}, fails: 1, want: "0s a; 5s a b c; end 5s"},
		{about: "a server that hangs", takes: []time.Duration{time.Hour, time.Hour}, want: "0s a; 7s a b c; end 7s"},
		{about: "only the last call hangs", takes: []time.Duration{0, time.Hour}, want: "0s a; 4s b c; end 7s"},
		{about: "a program that cannot be killed", takes: []time.Duration{0, time.Hour}, deaf: true, want: "0s a; 4s b c; end 7.2s"},
	} {
		t.Run(c.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ring events.Ring
				n := Notifier{Ring: &ring, Log: slog.New(slog.DiscardHandler), Config: func() Config { return Config{MinInterval: 10 * time.Second, Timeout: 10 * time.Second} }}
				var told []string
				start := time.Now()
				ctx, end := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					n.tell(ctx, way{"test", func(ctx context.Context, _ Config, m Message) error {
						line := time.Since(start).String()
						for _, e := range m.Events {
							line += " " + e.Text
						}
						told = append(told, line)
						at := len(told) - 1
						if at < len(c.takes) {
							if c.deaf {
								ctx = context.Background()
							}
							select {
							case <-time.After(c.takes[at]):
							case <-ctx.Done():
								return ctx.Err()
							}
						}
						if at < c.fails {
							return errors.New("busy")
						}
						return nil
					}})
				}()
				ring.Add(events.Event{Kind: events.EndpointDown, Text: "a"})
				time.Sleep(2 * time.Second)
				ring.Add(events.Event{Kind: events.AllDown, Text: "b"})
				time.Sleep(2 * time.Second)
				ring.Add(events.Event{Kind: events.Draining, Text: "drains"}, events.Event{Kind: events.Blind, Text: "c"})
				end()
				<-ended
				synctest.Wait()
				told = append(told, "end "+time.Since(start).String())
				if got := strings.Join(told, "; "); got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
				time.Sleep(2 * time.Hour) // until no call is left
			})
		})
	}
}

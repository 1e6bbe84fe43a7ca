package daemon

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/proxy/health"
)

// A drained node answers 503 on /healthz, also after a restart, until the drain is taken back. It goes on working.
func TestNodeDrain(t *testing.T) {
	n := start(t)
	if err := n.client.DrainNode(t.Context(), false, ""); err == nil || !strings.Contains(err.Error(), "not drained") {
		t.Errorf("undrained before: %v", err)
	}
	if err := n.client.DrainNode(t.Context(), true, "kernel upgrade"); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(n.dir, nodeDrainFile)
	if st, err := os.Stat(path); err != nil || st.Mode() != 0o600 {
		t.Errorf("%v, %v; want mode 0600", st.Mode(), err)
	}
	n.wantDrained(true)
	list, _, _ := n.console.ring.After(0)
	if e := list[len(list)-1]; e.Kind != events.Order || !strings.HasPrefix(e.Text, "drain of the node by ") || !strings.HasSuffix(e.Text, `: "kernel upgrade"`) {
		t.Errorf("the last event is %+v", e)
	}
	if again := openNodeDrain(n.dir); again.State() == nil || *again.State() != *n.console.drained.State() {
		t.Errorf("after a restart %+v, want %+v", again.State(), n.console.drained.State())
	}
	before := *n.console.drained.State()
	if err := n.client.DrainNode(t.Context(), true, "kernel upgrade"); err != nil {
		t.Fatal(err)
	}
	if again := n.console.drained.State(); !again.Since.Equal(before.Since) {
		t.Errorf("drained again at %v: since %v", before.Since, again.Since)
	}
	if err := n.client.DrainNode(t.Context(), false, "done"); err != nil {
		t.Fatal(err)
	}
	n.wantDrained(false)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Error(err)
	}
}

func (n *node) wantDrained(is bool) {
	n.Helper()
	healthz, _ := n.console.listeners()
	want := http.StatusOK
	if is {
		want = http.StatusServiceUnavailable
	}
	if code, body := n.get(healthz, "/healthz"); code != want {
		n.Errorf("/healthz: %d %s", code, body)
	}
	if code, body := n.get(healthz, "/livez"); code != http.StatusOK {
		n.Errorf("/livez: %d %s", code, body)
	}
	st, err := n.client.Status(n.Context(), false)
	if err != nil {
		n.Fatal(err)
	}
	if d := st.Daemon.Drain; (d != nil) != is || is && d.Why != "kernel upgrade" {
		n.Errorf("status has %+v", d)
	}
}

// A file that cannot be read drains nothing, is said, and is not lost.
func TestUnreadNodeDrain(t *testing.T) {
	for _, text := range []string{"", "\x00{", `{"version": 2, "by": "root"}`, `{"version": 1, "why": "\u001b[2J"}`} {
		dir := t.TempDir()
		path := filepath.Join(dir, nodeDrainFile)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		n := openNodeDrain(dir)
		if n.State() != nil || n.Unread() == nil {
			t.Errorf("%q: %+v, %v", text, n.State(), n.Unread())
		}
		if err := n.Set(true, health.Author{By: "root"}); err != nil || n.Unread() != nil {
			t.Errorf("%q: %v, %v", text, err, n.Unread())
		}
		if kept, err := os.ReadFile(path + ".unread"); string(kept) != text {
			t.Errorf("%q is kept as %q, %v", text, kept, err)
		}
	}
}

// A drain that could not be read can be taken back: it does not return when a later start can read the file.
func TestUnreadNodeDrainIsTakenBack(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, nodeDrainFile)
	if err := os.Mkdir(path, 0o700); err != nil { // a file that cannot be read now
		t.Fatal(err)
	}
	n := openNodeDrain(dir)
	if n.State() != nil || n.Unread() == nil {
		t.Fatalf("%+v, %v", n.State(), n.Unread())
	}
	const text = `{"version": 1, "since": "2026-01-02T03:04:05Z", "by": "root"}`
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.Set(false, health.Author{By: "root"}); err != nil || n.Unread() != nil {
		t.Errorf("%v, %v", err, n.Unread())
	}
	if again := openNodeDrain(dir); again.State() != nil || again.Unread() != nil {
		t.Errorf("the next start: %+v, %v", again.State(), again.Unread())
	}
	if kept, err := os.ReadFile(path + ".unread"); string(kept) != text {
		t.Errorf("kept is %q, %v", kept, err)
	}
	if err := n.Set(false, health.Author{By: "root"}); err == nil || !strings.Contains(err.Error(), "not drained") {
		t.Errorf("again: %v", err)
	}
}

// The loop asks for the drain in every sync, and does not wait while it is written to a disk.
func TestNodeDrainWaitsForNoDisk(t *testing.T) {
	n := openNodeDrain(t.TempDir())
	n.setting.Lock() // as while a file is written
	defer n.setting.Unlock()
	asked := make(chan struct{})
	go func() {
		n.State()
		_ = n.Unread()
		close(asked)
	}()
	select {
	case <-asked:
	case <-time.After(10 * time.Second):
		t.Error("it waits")
	}
}

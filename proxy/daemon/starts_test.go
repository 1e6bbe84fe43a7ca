package daemon

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/svcproxy/svcproxy/proxy/announce"
	"github.com/svcproxy/svcproxy/proxy/config"
)

// A crash leaves its start, a stop does not. Without announcements nothing is recorded.
func TestStartsAreRecorded(t *testing.T) {
	d := &daemon{log: newLog(io.Discard)}
	c := config.Config{RuntimeDir: filepath.Join(t.TempDir(), "run")}
	c.Announce.Mode = announce.Routes
	want := func(when string, count int) {
		t.Helper()
		if got := readStarts(c.RuntimeDir).Count; got != count {
			t.Errorf("%s: %d starts, want %d", when, got, count)
		}
	}
	want("never started", 0)
	d.begin(c)
	d.begin(c)
	want("started twice", 2)
	d.stopped(context.Background(), c)
	want("ended by an error", 2)
	ctx, stop := context.WithCancel(context.Background())
	stop()
	d.stopped(ctx, c)
	want("stopped", 0)
	d.stopped(ctx, c)
	if err := os.WriteFile(filepath.Join(c.RuntimeDir, startsFile), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if s := d.begin(c); s.Count != 1 {
		t.Errorf("after a file that cannot be read: %+v", s)
	}
	c.Announce.Mode = announce.Off
	c.RuntimeDir = filepath.Join(t.TempDir(), "run")
	d.begin(c)
	want("without announcements", 0)
}

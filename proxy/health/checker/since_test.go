package checker

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/health/probe"
	"github.com/svcproxy/svcproxy/sources"
)

// TestRestartKeepsSinceAndReason: after a restart an endpoint is down since when it went down, for the reason that it had. If
// the kernel has another state than the file, the kernel counts. A file that is no JSON is no obstacle.
func TestRestartKeepsSinceAndReason(t *testing.T) {
	server, dir := newServer(t), t.TempDir()
	c := check()
	c.Fall, c.OnAllDown = 1, sources.AllDownClosed
	tab := table(c, server)
	before := restarted(t, dir)
	have := kernelWith(tab, server.addr, 1)
	before.Overlay(sources.Merged{Table: tab}, have)
	before.hears(probe.Result{Outcome: probe.OK})
	before.hears(probe.Result{Outcome: probe.Refused})
	was := before.only()
	if was.Phase != health.Down || was.Reason != "refused" || was.Changed.IsZero() {
		t.Fatalf("%+v", was)
	}
	before.save(&before.since.kept, time.Now().Add(time.Minute))
	for weight, want := range map[uint32]health.State{0: {Phase: health.Down, Reason: "refused", Changed: was.Changed}, 1: {Phase: health.Up}} {
		after := restarted(t, dir)
		after.Overlay(sources.Merged{Table: tab}, kernelWith(tab, server.addr, weight))
		if got := after.only(); got.Phase != want.Phase || got.Reason != want.Reason || !got.Changed.Equal(want.Changed) {
			t.Errorf("weight %d in the kernel: %s since %v: %q, want %+v", weight, got.Phase, got.Changed, got.Reason, want)
		}
		after.hears(probe.Result{Outcome: probe.Refused})
		if got := after.only(); weight == 0 && !got.Changed.Equal(was.Changed) {
			t.Errorf("down since %v after the first result", got.Changed)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, sinceFile), []byte("no JSON"), 0o600); err != nil {
		t.Fatal(err)
	}
	after := restarted(t, dir)
	after.Overlay(sources.Merged{Table: tab}, kernelWith(tab, server.addr, 0))
	if got := after.only(); got.Phase != health.Down || got.Reason != "as before the restart" {
		t.Errorf("%+v", got)
	}
}

// only is the verdict of the only target.
func (r *rig) only() (v health.Verdict) {
	for _, v = range r.View().Known.Verdicts.Of {
	}
	return v
}

func FuzzParseSince(f *testing.F) {
	f.Add([]byte(`{"version":1,"targets":{"tcp 10.2.1.1:80  0":{"down":true,"since":"2026-03-01T09:30:00Z","reason":"refused"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		now := time.Unix(2e9, 0)
		all, err := health.ParseSince(data, now)
		for name, of := range all {
			if err != nil || of.Since.After(now) {
				t.Errorf("%s: %+v, %v", name, of, err)
			}
		}
	})
}

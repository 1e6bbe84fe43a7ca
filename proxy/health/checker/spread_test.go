package checker

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/sources"
)

// TestNewTargetsAreSpread: the first probes of a new table are spread over the interval. Targets keep their distance
// from each other, so a shorter time would crowd all later probes, too.
func TestNewTargetsAreSpread(t *testing.T) { synctest.Test(t, newTargetsAreSpread) }

func newTargetsAreSpread(t *testing.T) {
	c, err := New(Options{
		StateDir: t.TempDir(), Settings: Settings{Defaults: sources.DefaultHealthCheck()}, Log: slog.New(slog.DiscardHandler), Wake: func() {},
	})
	if err != nil {
		t.Fatal(err)
	}
	table := large(200)
	start := time.Now()
	c.Overlay(sources.Merged{Table: table}, &kernel.Observed{})
	interval := table.Services.At(0).HealthCheck.Interval
	var quarters [4]int
	for _, target := range health.Targets(table) {
		due, ok := c.Due(target.Key)
		after := due.Sub(start)
		if !ok || after < 0 || after > interval+time.Second {
			t.Fatalf("%v is due after %v, %v", target.Key, after, ok)
		}
		quarters[min(3, 4*after/interval)]++
	}
	for i, n := range quarters {
		if n < 200 || n > 300 {
			t.Errorf("%d of 1000 targets are due in quarter %d of the interval: %v", n, i+1, quarters)
		}
	}
}

package daemon

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/proxy"
)

// collections counts the garbage collections so far.
func collections() uint32 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.NumGC
}

var sink []byte

// take makes so many bytes of garbage.
func take(bytes int) {
	for ; bytes > 0; bytes -= 64 << 10 {
		sink = make([]byte, 64<<10)
	}
}

// usual sets the default garbage collection for a test.
func usual(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(math.MaxInt64)
	t.Cleanup(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	})
	debug.FreeOSMemory()
}

func percent() int {
	p := debug.SetGCPercent(-1)
	debug.SetGCPercent(p)
	return p
}

func TestNothingIsCollectedDuringAStart(t *testing.T) {
	usual(t)
	before := collections()
	resume := deferCollection(128 << 20)
	take(64 << 20)
	if n := collections() - before; n > 0 {
		t.Errorf("%d collections", n)
	}
	resume()
	resume()
	if p := percent(); p != 100 {
		t.Errorf("afterwards GOGC=%d", p)
	}
	take(64 << 20)
	if collections() == before {
		t.Error("no collection afterwards")
	}
}

func TestALargeStartIsCollectedAsUsual(t *testing.T) {
	usual(t)
	deferCollection(32 << 20)
	deadline := time.Now().Add(30 * time.Second)
	for percent() != 100 {
		take(64 << 20)
		if time.Now().After(deadline) {
			t.Fatal("collecting was not resumed at the limit")
		}
	}
}

func TestWhoSetsTheCollectorIsHeeded(t *testing.T) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		usual(t)
		t.Setenv(name, "50")
		deferCollection(32 << 20)
		if p := percent(); p != 100 {
			t.Errorf("with %s set: GOGC=%d", name, p)
		}
	}
}

// syncs is a loop that syncs when a snapshot is sent to it.
type syncs chan *proxy.Snapshot

func (l syncs) Await(ctx context.Context, began time.Time) (*proxy.Snapshot, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case s := <-l:
			if !s.Report.Start.Before(began) {
				return s, nil
			}
		}
	}
}

func TestMemoryIsGivenBackAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		usual(t)
		ctx, cancel := context.WithCancel(t.Context())
		var resumed atomic.Int32
		done, l := make(chan struct{}), make(syncs)
		go func() {
			defer close(done)
			returnMemory(ctx, l, func() { resumed.Add(1) })
		}()
		var changed time.Time
		sync := func(garbage int) (collected bool) {
			take(garbage)
			before := collections()
			l <- &proxy.Snapshot{Report: proxy.Report{Start: time.Now(), Changed: changed}}
			time.Sleep(quiet / 2)
			synctest.Wait()
			return collections() > before
		}
		atRest := func() (collected bool) {
			before := collections()
			time.Sleep(quiet)
			synctest.Wait()
			return collections() > before
		}
		debug.SetGCPercent(-1)
		if sync(64<<20) || resumed.Load() != 0 {
			t.Error("collected before the loop was quiet")
		}
		if !atRest() || resumed.Load() == 0 {
			t.Error("nothing was returned after a start")
		}
		if sync(4<<20) || atRest() {
			t.Error("collected although no table has changed")
		}
		if sync(checkGarbage) || !atRest() {
			t.Error("the garbage of checks was kept")
		}
		take(4 << 20)
		changed = time.Now()
		for range 2 {
			if sync(0) {
				t.Error("collected between two changes")
			}
		}
		if !atRest() {
			t.Error("4 MB were kept although nothing changes")
		}
		if sync(0) || atRest() {
			t.Error("collected although nothing was left")
		}
		cancel()
		<-done
	})
}

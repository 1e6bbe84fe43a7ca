package daemon

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
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
	garbage := deferCollection(128 << 20)
	take(64 << 20)
	if n := collections() - before; n > 0 {
		t.Errorf("%d collections", n)
	}
	garbage.resume()
	garbage.resume()
	if p, limit := percent(), debug.SetMemoryLimit(-1); p != 100 || limit != math.MaxInt64 {
		t.Errorf("afterwards GOGC=%d and a limit of %d", p, limit)
	}
	take(64 << 20)
	if collections() == before {
		t.Error("no collection afterwards")
	}
}

func TestReadingIsCollectedOnce(t *testing.T) {
	for _, c := range []struct {
		megabytes int
		want      uint32
	}{{1, 0}, {32, 1}} {
		usual(t)
		garbage := deferCollection(128 << 20)
		rules := garbage.afterReading(func(sources.Merged, kernel.Node, bool, []string) (*frontend.Frontends, kernel.State) {
			return nil, kernel.State{}
		})
		take(c.megabytes << 20)
		before := collections()
		for range 2 {
			rules(sources.Merged{}, kernel.Node{}, false, nil)
			take(32 << 20)
		}
		if n := collections() - before; n != c.want {
			t.Errorf("%d MB: %d collections, want %d", c.megabytes, n, c.want)
		}
		if p := percent(); p != -1 {
			t.Errorf("%d MB: GOGC=%d before the start ends", c.megabytes, p)
		}
		deadline := time.Now().Add(30 * time.Second)
		for percent() != 100 { // at the limit, as without the collection
			take(64 << 20)
			if time.Now().After(deadline) {
				t.Fatalf("%d MB: collecting was not resumed at the limit", c.megabytes)
			}
		}
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

func TestMemoryIsGivenBackAfterASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		usual(t)
		ctx, cancel := context.WithCancel(t.Context())
		resumed, done, l := 0, make(chan struct{}), make(syncs)
		go func() {
			defer close(done)
			returnMemory(ctx, l, func() { resumed++ })
		}()
		var changed time.Time
		sync := func(garbage int) (given bool) {
			take(garbage)
			before := collections()
			l <- &proxy.Snapshot{Report: proxy.Report{Start: time.Now(), Changed: changed}}
			time.Sleep(quiet)
			synctest.Wait()
			return collections() > before
		}
		atRest := func() (given bool) {
			before := collections()
			time.Sleep(rest)
			synctest.Wait()
			return collections() > before
		}
		debug.SetGCPercent(-1)
		sync(64 << 20)
		if resumed != 1 {
			t.Error("collecting was not resumed after the first sync")
		}
		if sync(1 << 20) {
			t.Error("collected for the sake of a megabyte")
		}
		if !sync(64 << 20) {
			t.Error("64 MB were kept")
		}
		if sync(4<<20) || atRest() {
			t.Error("collected for the sake of 4 MB, and no table has changed")
		}
		changed = time.Now()
		if sync(1 << 20) {
			t.Error("collected at once for the sake of 5 MB")
		}
		if !atRest() {
			t.Error("5 MB were kept although nothing changes")
		}
		if sync(0) || atRest() {
			t.Error("collected although nothing was left")
		}
		cancel()
		<-done
	})
}

func TestWorthReturning(t *testing.T) {
	for _, c := range []struct {
		taken, live uint64
		want        bool
	}{
		{1 << 20, 0, false},
		{8 << 20, 0, true}, // live is 0 before the first collection
		{8 << 20, 20 << 20, false},
		{8 << 20, 10 << 20, true},
		{20 << 20, 40 << 20, true},
	} {
		if got := worthReturning(c.taken, c.live); got != c.want {
			t.Errorf("%d bytes taken with %d live: %v", c.taken, c.live, got)
		}
	}
}

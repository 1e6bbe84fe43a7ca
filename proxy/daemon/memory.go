package daemon

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// Reading a table and programming it takes several times the memory that stays in use.
// The process would keep it, because the Go runtime returns only what it does not expect
// to need again. And collecting garbage meanwhile is a part of what a start costs. So
// garbage is not collected during a start, but for once in a large one, and memory is returned soon after. An operator
// who sets GOGC or GOMEMLIMIT decides instead.
//
// Each alone, measured in the guest with Linux 6.1 and IPv4, in millions of instructions
// and in MiB of resident memory:
//
//	services x endpoints        | 1,000 x 10 | 5,000 x 5
//	start, collecting           |        574 |      1633
//	start, not collecting       |        503 |      1378
//	restart, collecting         |        369 |       979
//	restart, not collecting     |        275 |       683
//	resident, nothing returned  |       37.9 |      70.5
//	resident, memory returned   |       26.2 |      39.4
//
// The price is that the next change takes memory from the system again: a saved file of
// 1,000 services costs 17 instead of 12 million instructions.

// startLimit is how many bytes a start may take before garbage is collected. 1,000
// services with 10 endpoints take 25 MB. Above the limit, collection works as usual.
const startLimit = 64 << 20

// collector is the garbage collector during a start. It never pauses if an operator has set it.
type collector struct {
	resume  func() // ends the pause
	paused  atomic.Bool
	asked   atomic.Bool // the next collection is that of read
	large   bool        // read has collected, and no plan was applied since; of the loop's goroutine
	began   uint64      // bytes allocated before the start
	reading sync.Once
}

// deferCollection turns garbage collection off until the program has taken limit bytes
// from the system, or until resume is called. Then it also drops the pages of the program
// that only a start needs.
func deferCollection(limit int64) *collector {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return &collector{resume: func() {}}
	}
	c := new(collector)
	c.began, _ = heap()
	oldPercent, oldLimit := debug.SetGCPercent(-1), debug.SetMemoryLimit(limit)
	c.resume = sync.OnceFunc(func() {
		c.paused.Store(false)
		debug.SetGCPercent(oldPercent)
		debug.SetMemoryLimit(oldLimit)
		dropProgram()
	})
	c.paused.Store(true)
	c.watch()
	return c
}

// watch calls resume at the first collection that read did not ask for: that at the limit. Otherwise the runtime would
// collect without end to stay below the limit.
func (c *collector) watch() {
	sentinel := new([16]byte) // freed by the first collection
	runtime.AddCleanup(sentinel, func(c *collector) {
		if c.asked.CompareAndSwap(true, false) {
			c.watch()
		} else {
			c.resume()
		}
	}, c)
}

// afterReading calls read before the first call of rules.
func (c *collector) afterReading(rules proxy.Rules) proxy.Rules {
	return func(t sources.Merged, n kernel.Node, hold bool, occupied []string) (*frontend.Frontends, kernel.State) {
		c.reading.Do(c.read)
		return rules(t, n, hold, occupied)
	}
}

// minRead is the smallest allocation, in bytes, for which read collects.
const minRead = 12 << 20

// read collects garbage once, if there is enough: the files are read, and nothing is planned yet. A later collection costs
// more, since more is in use. With 5,000 services of 5 endpoints 8 of 14 MB are in use then, and the peak of the start is 6
// MB lower. 1,000 services of 10 endpoints have allocated 5 MB by then, and 9 in a restart, which is not worth it.
func (c *collector) read() {
	if !c.paused.Load() {
		return
	}
	if allocated, _ := heap(); allocated-c.began >= minRead {
		c.asked.Store(true)
		c.large = true
		runtime.GC()
		dropProgram()
	}
}

// whileApplying returns k. Before and after the first plan of a large start is applied, it drops the pages of the program
// that were needed until then: the memory of a start is largest at its end.
func (c *collector) whileApplying(k proxy.Kernel) proxy.Kernel { return &startKernel{k, c} }

type startKernel struct {
	proxy.Kernel
	start *collector
}

func (k *startKernel) Apply(ctx context.Context, p kernel.Plan) error {
	if k.start.large {
		k.start.large = false
		dropProgram()
		defer dropProgram()
	}
	return k.Kernel.Apply(ctx, p)
}

// dropProgram drops the pages of the program's file. Those that are needed again are mapped again from the page cache, 16
// at a time. An error means that more memory stays resident. Serving does not need it.
func dropProgram() { _ = host.DropProgram() }

// awaiter is the part of *proxy.Proxy that returnMemory needs.
type awaiter interface {
	// Await waits for a sync that began at this time or later.
	Await(ctx context.Context, began time.Time) (*proxy.Snapshot, error)
}

// quiet is the pause between a sync and the look at memory. In this time systemd is
// notified and a waiting client gets its answer.
const quiet = 200 * time.Millisecond

// rest is how long after the last sync less garbage is worth a collection, too. It is longer than the second after which
// a busy table changes again.
const rest = 2 * time.Second

// returnMemory returns memory to the system after each sync, if there is enough to return. After the
// first sync it calls resume. If nothing is synced for some time after a table has changed, it returns what the last
// syncs left. It ends with ctx.
func returnMemory(ctx context.Context, loop awaiter, resume func()) {
	var began time.Time
	var returned uint64 // bytes allocated until memory was last returned
	changed := false    // a table has, since then
	giveBack := func(worth func(allocated, live uint64) bool) {
		if allocated, live := heap(); worth(allocated-returned, live) {
			dropProgram() // collecting does not need most of it, either
			debug.FreeOSMemory()
			dropProgram()
			returned, changed = allocated, false
		}
	}
	for {
		now, err := awaitFor(ctx, loop, began, changed)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil: // nothing was synced
			giveBack(worthReturningAtRest)
			changed = false
			continue
		}
		began = now.Report.Start.Add(1)
		changed = changed || !now.Report.Changed.IsZero()
		select {
		case <-ctx.Done():
			return
		case <-time.After(quiet):
		}
		giveBack(worthReturning)
		resume() // not before, or the runtime would begin a collection of its own
	}
}

// awaitFor waits for a sync. With limited it returns an error if there is none in the time of rest.
func awaitFor(ctx context.Context, loop awaiter, began time.Time, limited bool) (*proxy.Snapshot, error) {
	if limited {
		limit, cancel := context.WithTimeout(ctx, rest)
		defer cancel()
		ctx = limit
	}
	return loop.Await(ctx, began)
}

// minReturn is the smallest allocation, in bytes, that is worth a collection.
const minReturn = 8 << 20

// worthReturning reports whether memory should be returned, after so many bytes were
// allocated since the last time. Returning takes a collection. The runtime collects by
// itself when the allocation equals the live heap; half of that is worth one too.
func worthReturning(allocated, live uint64) bool { return allocated >= max(minReturn, live/2) }

// worthReturningAtRest is worthReturning when nothing has been synced for some time.
func worthReturningAtRest(allocated, live uint64) bool { return allocated >= max(1<<20, live/16) }

// heap returns the bytes allocated since the start of the process, and the bytes that
// were live after the last collection.
func heap() (allocated, live uint64) {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64(), s[1].Value.Uint64()
}

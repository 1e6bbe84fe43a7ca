package daemon

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/proxy"
)

// Reading a table takes several times the memory that stays in use, and collecting the garbage meanwhile is a
// quarter of what a start costs. So a start collects nothing below startLimit, and once the loop has been
// quiet for a while, memory goes back to the system. An operator who sets GOGC or GOMEMLIMIT decides instead.

// startLimit is the size of the heap, in bytes, at which garbage is collected during a start, too. 5,000
// services with 5 endpoints stay below it.
const startLimit = 64 << 20

// firstCollection is the size of the heap, in bytes, at which the runtime first collects with GOGC=100.
const firstCollection = 4 << 20

// deferCollection lets the first garbage collection wait until the heap has so many bytes, or until resume is called.
func deferCollection(limit int) (resume func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	usual := debug.SetGCPercent(100 * (limit / firstCollection))
	resume = sync.OnceFunc(func() { debug.SetGCPercent(usual) })
	first := new([16]byte) // freed by the first collection
	runtime.AddCleanup(first, func(resume func()) { resume() }, resume)
	return resume
}

// awaiter is the part of *proxy.Proxy that returnMemory needs.
type awaiter interface {
	// Await waits for a sync that began at this time or later.
	Await(ctx context.Context, began time.Time) (*proxy.Snapshot, error)
}

// quiet is how long nothing is synced before memory is returned. It is longer than the second after which a busy table
// changes again, since the next change takes its memory from the system again.
const quiet = 2 * time.Second

// Memory is returned if so many bytes were allocated since the last time, as returning costs a collection: after a new
// table, and after checks alone. A check of 5,000 services in mode iptables allocates 40 MB, which would stay until the
// next ones.
const (
	tableGarbage = 1 << 20
	checkGarbage = 16 << 20
)

// returnMemory returns memory to the system each time the loop is quiet after a sync, and calls resume after the first
// time. It ends with ctx.
func returnMemory(ctx context.Context, loop awaiter, resume func()) {
	var began time.Time
	var returned uint64 // bytes allocated until memory was last returned
	synced, least := true, uint64(tableGarbage)
	for ctx.Err() == nil {
		now, err := awaitFor(ctx, loop, began, synced)
		if err == nil {
			began, synced = now.Report.Start.Add(1), true
			if !now.Report.Changed.IsZero() {
				least = tableGarbage
			}
			continue
		}
		if allocated := allocations(); ctx.Err() == nil && allocated-returned >= least {
			debug.FreeOSMemory()
			returned = allocated
		}
		synced, least = false, checkGarbage
		resume() // not before, or the runtime would begin a collection of its own
	}
}

// awaitFor waits for a sync. With limited it returns an error if there is none while the loop is quiet.
func awaitFor(ctx context.Context, loop awaiter, began time.Time, limited bool) (*proxy.Snapshot, error) {
	if limited && !began.IsZero() {
		limit, cancel := context.WithTimeout(ctx, quiet)
		defer cancel()
		ctx = limit
	}
	return loop.Await(ctx, began)
}

// allocations returns the bytes that were allocated since the start of the process.
func allocations() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

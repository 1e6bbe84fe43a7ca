// Package memory decides when garbage is collected: not while svcproxy starts, and
// soon after, when nobody waits for it.
//
// Reading a table and bringing it to the kernel takes several times the memory that is
// kept of it. Collected on the way, that was a fifth of what a start costs (200 of
// 900 million instructions for 1,000 services of 10 endpoints); and what was taken
// would stay taken, as the runtime gives memory back only down to what it expects
// to need again. A daemon that is idle needs none of it.
//
// It refuses to know better than who sets GOGC or GOMEMLIMIT.
package memory

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

// Start is how many bytes a start may take before garbage is collected: a table of
// 1,000 services of 10 endpoints takes 25 MB. Larger ones are collected from there
// on as usual.
const Start = 64 << 20

// PutOff puts collecting off until the program has taken so many bytes of the
// system, or resume is called.
func PutOff(bytes int64) (resume func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	percent, limit := debug.SetGCPercent(-1), debug.SetMemoryLimit(bytes)
	resume = sync.OnceFunc(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	})
	// The first collection is that of the limit: it finds the sentinel unused.
	// Beyond it, collecting would not end.
	sentinel := new([16]byte)
	runtime.AddCleanup(sentinel, func(resume func()) { resume() }, resume)
	return resume
}

// Loop is what there is to follow: a *proxy.Proxy.
type Loop interface {
	// Await waits for a sync that began at this time or later.
	Await(ctx context.Context, began time.Time) (*proxy.Snapshot, error)
}

// quiet is how long after a sync memory is looked at: systemd has been told by
// then, and who asks for status at once has an answer.
const quiet = 200 * time.Millisecond

// Tend has collecting resumed after the first sync, and gives memory back to the
// system after every sync that leaves enough to give, until ctx ends.
func Tend(ctx context.Context, loop Loop, resume func()) {
	var began time.Time
	var given uint64
	for {
		now, err := loop.Await(ctx, began)
		if err != nil {
			return
		}
		began = now.Report.Start.Add(1)
		select {
		case <-ctx.Done():
			return
		case <-time.After(quiet):
		}
		resume()
		if taken, live := heap(); due(taken-given, live) {
			debug.FreeOSMemory()
			given = taken
		}
	}
}

// least is what giving back is not worth a collection for.
const least = 8 << 20

// due says whether to give back, so many bytes after the last time. It takes a
// collection, which would come by itself when as much has been taken as is live;
// half of that is not left lying about either.
func due(taken, live uint64) bool { return taken >= max(least, live/2) }

// heap gives the bytes that were ever taken, and those that were live at the last
// collection.
func heap() (taken, live uint64) {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64(), s[1].Value.Uint64()
}

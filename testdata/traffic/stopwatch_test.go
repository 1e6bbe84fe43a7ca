package traffic

import (
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// freePause is the longest pause of a machine that runs freely.
const freePause = 150 * time.Millisecond

// emulated reports whether this is the guest, where all that a processor does takes about ten times as long.
func emulated() bool { return os.Getenv("SVCPROXY_GUEST") == "1" }

// stopwatch measures from now on. The returned function logs how long something took, and is an error if that is more
// than a limit while the machine let this process run all the time.
func stopwatch(t *testing.T) func(what string, most time.Duration) {
	began, stop := time.Now(), make(chan struct{})
	end := sync.OnceFunc(func() { close(stop) })
	t.Cleanup(end)
	var longest atomic.Int64
	go func() {
		for last := began; ; {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			longest.Store(max(longest.Load(), int64(time.Since(last))))
			last = time.Now()
		}
	}()
	return func(what string, most time.Duration) {
		t.Helper()
		end()
		took, pause := time.Since(began).Round(time.Millisecond), time.Duration(longest.Load()).Round(time.Millisecond)
		t.Logf("%s after %v, longest pause of the machine %v", what, took, pause)
		if took > most && pause < freePause {
			t.Errorf("%s after %v, want at most %v", what, took, most)
		}
	}
}

package traffic

import (
	"os"
	"sync"
	"testing"
	"time"
)

// freePause is the longest pause of a machine that runs freely.
const freePause = 150 * time.Millisecond

// emulated reports whether this is the guest, where all that a processor does takes about ten times as long.
func emulated() bool { return os.Getenv("SVCPROXY_GUEST") == "1" }

// pauses watches from now on how long this process pauses. The returned function ends that and returns the longest pause.
func pauses(t *testing.T) func() time.Duration {
	stop, longest := make(chan struct{}), make(chan time.Duration)
	go func() {
		pause, ended := time.Duration(0), false
		for last := time.Now(); !ended; last = time.Now() {
			select {
			case <-stop: // a pause may last until now
				ended = true
			case <-time.After(20 * time.Millisecond):
			}
			pause = max(pause, time.Since(last))
		}
		longest <- pause
	}()
	end := sync.OnceValue(func() time.Duration { close(stop); return <-longest })
	t.Cleanup(func() { end() })
	return end
}

// stopwatch measures from now on. The returned function logs how long something took, and is an error if that is more
// than a limit while the machine let this process run all the time.
func stopwatch(t *testing.T) func(what string, most time.Duration) {
	began, longest := time.Now(), pauses(t)
	return func(what string, most time.Duration) {
		t.Helper()
		took := time.Since(began).Round(time.Millisecond)
		pause := longest().Round(time.Millisecond)
		t.Logf("%s after %v, longest pause of the machine %v", what, took, pause)
		if took > most && pause < freePause {
			t.Errorf("%s after %v, want at most %v", what, took, most)
		}
	}
}

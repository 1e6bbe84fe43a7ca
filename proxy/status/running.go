package status

import (
	"fmt"
	"time"

	"github.com/svcproxy/svcproxy/proxy"
)

// longSync is how long a sync may take without being mentioned.
const longSync = 2 * time.Second

// runningOf is a sync that goes on.
func runningOf(r *proxy.Running, now time.Time) *Running {
	if r == nil {
		return nil
	}
	return &Running{Cause: string(r.Cause), Seconds: seconds(now.Sub(r.Start)), Done: r.Done, Steps: r.Of}
}

// long says whether a sync has gone on for so long that it is worth a word.
func (r *Running) long() bool { return r != nil && r.Seconds >= longSync.Seconds() }

// String is how far it is: "a sync (table) is in progress for 12s: 3000 of 77000 steps".
func (r *Running) String() string {
	text := fmt.Sprintf("a sync (%s) is in progress for %s", r.Cause, length(r.Seconds))
	if r.Steps > 0 {
		text += fmt.Sprintf(": %d of %d steps", r.Done, r.Steps)
	}
	return text
}

// Now is what a sync that goes on has reached, or else how the last one ended.
func (s Sync) Now() string {
	switch {
	case s.Running != nil:
		return s.Running.String()
	case s.Error != "":
		return "the last sync failed: " + s.Error
	}
	return "no sync is in progress"
}

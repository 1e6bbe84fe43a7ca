package status

import (
	"time"

	"github.com/svcproxy/svcproxy/proxy"
)

// runningOf describes a sync in progress.
func runningOf(r *proxy.Running, now time.Time) *Running {
	if r == nil {
		return nil
	}
	return &Running{Cause: string(r.Cause), Seconds: seconds(now.Sub(r.Start)), Done: r.Done, Steps: r.Of, VIPs: r.VIPs,
		NewVIPs: r.NewVIPs, Text: r.String(), long: r.Long()}
}

// Now says how far the sync in progress is, or else how the last one ended.
func (s Sync) Now() string {
	switch {
	case s.Running != nil:
		return s.Running.Text
	case s.Error != "":
		return "the last sync failed: " + s.Error
	}
	return "no sync is in progress"
}

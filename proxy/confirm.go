package proxy

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/proxy/announce"
)

// Bounds of Confirm: how many syncs may fail in a row, and how many may find something
// to do. Without the second, Confirm would not end while tables keep changing.
const (
	confirmFailures = 3
	confirmRounds   = 3
)

// confirmDeparture is how long Confirm waits for VIPs that were withdrawn and are still served.
const confirmDeparture = time.Minute

// goesSoon reports whether a VIP was removed, and goes soon. If its time is over it waits for a source.
func goesSoon(v announce.VIP, now time.Time) bool {
	left := v.Until.Sub(now) // negative if it was not removed
	return left > 0 && left <= confirmDeparture
}

// Confirm waits until every table emitted before the call, and the configuration as of
// the call, are programmed and a full check has verified the kernel after that. It
// returns the snapshot of the last sync. If that failed three times, Report.Err says
// why. The error is that of ctx. It may be called from any goroutine.
func (p *Proxy) Confirm(ctx context.Context) (*Snapshot, error) {
	failures, rounds := 0, 0
	n := p.Check(CauseAsked)
	stopped := false
	var last *Snapshot
	for {
		s, err := p.snapshots.await(ctx, func(s *Snapshot) bool { return s != last && s.Report.Asked >= n })
		if err != nil {
			return nil, err
		}
		last = s
		if s.Report.Err != nil {
			if failures++; failures == confirmFailures {
				return s, nil
			}
			// The loop tries again by itself, but after many failures not soon.
			if err := wait(ctx, backoff(failures)); err != nil {
				return nil, err
			}
			n = p.Check(CauseAsked)
			continue
		}
		if s.Report.Left > 0 {
			stopped = true
			continue // the next sync goes on
		}
		if stopped { // the check that was asked for was before that
			stopped, n = false, p.Check(CauseAsked)
			continue
		}
		if len(s.Report.Plan.Probes) > 0 {
			continue // the answers cause another sync
		}
		if slices.ContainsFunc(s.Announced, func(v announce.VIP) bool { return goesSoon(v, s.Report.Start) }) {
			continue // so does the end of their time
		}
		if rounds++; s.Report.Steps == 0 || rounds == confirmRounds {
			return s, nil
		}
		failures, n = 0, p.Check(CauseAsked)
	}
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for a sync: %w", ctx.Err())
	}
}

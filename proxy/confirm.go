package proxy

import (
	"context"
	"fmt"
	"time"
)

// Bounds of Confirm: how many syncs may fail in a row, and how many may find something
// to do. Without the second, Confirm would not end while tables keep changing.
const (
	confirmFailures = 3
	confirmRounds   = 3
)

// Confirm waits until every table emitted before the call, and the configuration as of
// the call, are programmed, nothing is Unfinished, and a full check has verified the kernel
// after that. It returns the snapshot of the last sync. If that failed three times, Report.Err
// says why. The error is that of ctx. It may be called from any goroutine.
func (p *Proxy) Confirm(ctx context.Context) (*Snapshot, error) {
	failures, rounds := 0, 0
	n := p.Check(CauseAsked)
	var last *Snapshot
	for {
		s, err := p.snapshots.await(ctx, func(s *Snapshot) bool { return s != last && s.Report.Asked >= n })
		if err != nil {
			return nil, err
		}
		last = s
		switch {
		case s.Report.Err != nil:
			if failures++; failures == confirmFailures {
				return s, nil
			}
			// The loop tries again by itself, but after many failures not soon.
			if err := wait(ctx, backoff(failures)); err != nil {
				return nil, err
			}
		case len(s.Unfinished) > 0: // the loop syncs again by itself
			continue
		default:
			if rounds++; s.Report.Steps == 0 || rounds == confirmRounds {
				return s, nil
			}
			failures = 0
		}
		n = p.Check(CauseAsked)
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

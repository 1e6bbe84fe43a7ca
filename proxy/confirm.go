package proxy

import (
	"context"
	"fmt"
	"time"
)

// Bounds of Confirm: how many syncs may fail in a row, and how many may find
// something to do. A table that changes all the time is never found unchanged.
const (
	confirmFailures = 3
	confirmRounds   = 3
)

// Confirm waits until every table emitted before the call, and the configuration
// as of the call, are programmed, and a full check after that has found the kernel
// so. It returns what the last sync left; Report.Err says what failed if that
// did, after three tries. The error is ctx's.
func (p *Proxy) Confirm(ctx context.Context) (*Snapshot, error) {
	failures, rounds := 0, 0
	n := p.Check(CauseAsked)
	var last *Snapshot
	for {
		s, err := p.await(ctx, func(s *Snapshot) bool { return s != last && s.Report.Asked >= n })
		if err != nil {
			return nil, err
		}
		last = s
		if s.Report.Err != nil {
			if failures++; failures == confirmFailures {
				return s, nil
			}
			// The loop tries again by itself, but may have come to do so rarely.
			if err := wait(ctx, backoff(failures)); err != nil {
				return nil, err
			}
			n = p.Check(CauseAsked)
			continue
		}
		if len(s.Report.Plan.Probes) > 0 {
			continue // the answers bring another sync
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

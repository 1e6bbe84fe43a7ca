package proxy

import (
	"context"
	"time"
)

// stops decides whether a plan stops after a wave (see kernel/plan/DESIGN.md), since something new is to be planned for: a
// table, a change of health, of the node or of the configuration, the answers of other hosts about VIPs, or a time that
// has come, as the deadline of a drain. Without that, what changed would wait until the last service is loaded. A plan
// also stops if ctx ends.
//
// A plan does not stop before it has been carried out for as long as the sync took to make it, nor before the next sync
// is due. So a table that always changes costs at most half of the time for planning, and each plan gets on.
func (p *Proxy) stops(ctx context.Context, r *Report) func(done int) bool {
	earliest := time.Now().Add(r.Planned.Sub(r.Start))
	if due := r.Start.Add(p.pace.minGap); earliest.Before(due) {
		earliest = due
	}
	return func(int) bool {
		p.answer()
		now := time.Now()
		switch {
		case ctx.Err() != nil:
			return true
		case !now.After(earliest):
			return false
		}
		select {
		case answers := <-p.prober.answered: // they become old while they wait
			p.logs.unprobed.report(p.prober.keep(answers))
			return true
		default:
			return len(p.in.wake) > 0 || len(p.requests.replan) > 0 || p.in.isAsked() ||
				comes(r.Plan.Wake, r.Start, now) || comes(p.pace.overlay, r.Start, now)
		}
	}
}

// comes reports whether a time, zero for never, has come since a sync began. That sync acted on earlier ones.
func comes(at, began, now time.Time) bool { return at.After(began) && !at.After(now) }

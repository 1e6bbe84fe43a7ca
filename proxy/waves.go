package proxy

import (
	"context"
	"time"
)

// stops reports whether a plan stops after a wave (see kernel/plan/DESIGN.md), because newer input is
// waiting: a table, health, node facts, a configuration, probe answers, rules that another program changed,
// or a deadline that has passed. Otherwise a change would wait until the last service is loaded. A plan also
// stops if ctx ends.
//
// A plan runs for at least as long as the sync took to make it, and until the next sync is due. So planning takes at
// most half of the time, and each plan makes progress.
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
				len(p.requests.written) > 0 && !now.Before(p.pace.rules.next()) ||
				comes(r.Plan.Wake, r.Start, now) || comes(p.pace.overlay, r.Start, now)
		}
	}
}

// comes reports whether a deadline, zero for never, has passed since a sync began. That sync acted on earlier ones.
func comes(at, began, now time.Time) bool { return at.After(began) && !at.After(now) }

package proxy

import (
	"errors"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/sources"
)

// Report is the result of one sync.
type Report struct {
	Causes CauseSet
	Start  time.Time

	// Checked: a shard of the kernel, or all of it, was compared with the last reading.
	// Full: it was all of it. Differed: it was not as known, so all of it was read.
	Checked, Full, Differed bool
	// By names the processes that changed rules before a check of them; "" if none is known.
	By string
	// Read: the plan is that of a valid reading of the kernel. Without one, Plan has no more than ops.
	Read bool

	// Seen is when a source noticed the oldest change that the sync programs, and
	// Changed when the oldest change arrived, read and parsed. They are zero if there
	// was none. Planned is when the plan was made, zero if the sync failed before.
	Seen, Changed, Planned time.Time
	Duration               time.Duration

	Plan kernel.Plan
	// Repairs are the ops that undid what another program had changed: see plan.Repairs. Without those that failed, or
	// that are left to the next sync.
	Repairs []kernel.Op

	Steps int // ops of the plan; a kept Snapshot has only this number
	Left  int // VIPs that the plan left to the next sync, which follows at once: see plan.Next
	// a *kernel.ApplyError, or why the sync failed before its plan: Plan then has what was done without a reading
	Err error

	// Asked is the number of the last request (see Proxy.Check) for a full check that
	// was made by this sync or an earlier one.
	Asked uint64

	// Problems are what is left out of the merged table, or of a service in it, because
	// another service has it or the node does not permit it.
	Problems []sources.Problem
	// Waiting are the sources that have not delivered a complete table yet. While there
	// are any, nothing is removed.
	Waiting []string

	Services, Virtuals, Reals int // wanted
	Bound, Routed             int // VIPs: wanted as addresses, and as local routes
}

// Stages are how long a change took from the source to the kernel.
type Stages struct {
	Parse time.Duration // from the event to the table; 0 if no event was noticed
	Plan  time.Duration // from there to the plan, including the wait for the sync
	Apply time.Duration // from there to the kernel's acknowledgement
	Total time.Duration
}

// Stages returns those of the oldest change in the sync. ok is false if there was no
// change or no plan.
func (r Report) Stages() (s Stages, ok bool) {
	if r.Changed.IsZero() || r.Planned.IsZero() {
		return Stages{}, false
	}
	s = Stages{Plan: r.Planned.Sub(r.Changed), Apply: r.End().Sub(r.Planned)}
	// The oldest event and the oldest table may be of two sources.
	if !r.Seen.IsZero() && r.Seen.Before(r.Changed) {
		s.Parse = r.Changed.Sub(r.Seen)
	}
	s.Total = s.Parse + s.Plan + s.Apply
	return s, true
}

// End is when the kernel had acknowledged all ops.
func (r Report) End() time.Time { return r.Start.Add(r.Duration) }

// Drift reports whether another program had changed our objects in the kernel.
func (r Report) Drift() bool { return len(r.Repairs) > 0 }

// EndsDrain reports whether an op removes a real server of weight 0, whose connections have ended.
func EndsDrain(o kernel.Op) bool {
	if o.Verb != kernel.Remove { // checked first, because a start has thousands of others
		return false
	}
	real, ok := o.Object.(kernel.Real)
	return ok && real.Weight == 0
}

// carriedOut reports whether the plan was carried out, but for ops that failed.
func (r *Report) carriedOut() bool {
	var failed *kernel.ApplyError
	return r.Err == nil || errors.As(r.Err, &failed)
}

// keepsUp reports whether the kernel is as the sources say, but for a few virtual servers: fewer than half, which it
// refuses, for example because their scheduler does not exist. They are Degraded. All others are served, so this is
// no reason to take the node out, or to end.
func (r *Report) keepsUp() bool {
	var failed *kernel.ApplyError
	if r.Err == nil || !errors.As(r.Err, &failed) {
		return r.Err == nil
	}
	refused := map[kernel.VirtualKey]bool{}
	for _, f := range failed.Failed {
		switch o := f.Op.Object.(type) {
		case kernel.Virtual:
			refused[o.Key] = true
		case kernel.Real:
			refused[o.Key.Virtual] = true
		case kernel.Flow: // of one client
		default:
			if !errors.Is(f.Err, plan.ErrSkipped) {
				return false
			}
		}
	}
	return len(refused) == 0 || 2*len(refused) < r.Virtuals
}

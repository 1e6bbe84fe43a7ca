package proxy

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// Report is what one sync did.
type Report struct {
	Cause    Cause
	Checked  bool      // a part of the kernel was checked, or all of it
	Full     bool      // all of it was
	Differed bool      // it was not as it was known to be, and so it was read
	Start    time.Time // of the sync
	Seen     time.Time // when a source noticed the oldest change in it; zero if none did
	Changed  time.Time // when the oldest change in it came, read and parsed; zero if it was about none
	Planned  time.Time // when it was known what to do; zero if it did not get there
	Duration time.Duration

	Plan  kernel.Plan
	Steps int   // of the plan; Snapshot keeps no ops
	Err   error // *kernel.ApplyError, or why the kernel could not be read

	// Asked is the number of the last request for a full check (Proxy.Check) that
	// this sync made, or that one before it did.
	Asked uint64

	// What is left out of the merged table or of a service in it, each naming the
	// services in conflict, or what of the node stands in the way.
	Problems []sources.Problem
	// Waiting are the sources that have not delivered yet; while there are any
	// nothing is removed.
	Waiting []string

	Services, Virtuals, Reals int // wanted
	// VIPs that are bound as addresses, and made local by routes.
	Bound, Routed int
}

// Stages are how long a change took on its way from the source to the kernel.
type Stages struct {
	Parse time.Duration // from the event to the table; 0 if no event was noticed
	Plan  time.Duration // from there to knowing what to do, the wait for the sync included
	Apply time.Duration // from there to the kernel's acknowledgement
	Total time.Duration
}

// Stages are those of the oldest change in the sync; false if it was about none,
// or did not get as far as a plan.
func (r Report) Stages() (Stages, bool) {
	if r.Changed.IsZero() || r.Planned.IsZero() {
		return Stages{}, false
	}
	s := Stages{Plan: r.Planned.Sub(r.Changed), Apply: r.End().Sub(r.Planned)}
	// The oldest event and the oldest table may be of two sources.
	if !r.Seen.IsZero() && r.Seen.Before(r.Changed) {
		s.Parse = r.Changed.Sub(r.Seen)
	}
	s.Total = s.Parse + s.Plan + s.Apply
	return s, true
}

// End is when the sync was over: when the kernel had acknowledged its ops.
func (r Report) End() time.Time { return r.Start.Add(r.Duration) }

// Drift says whether the kernel had changed by another hand than ours.
func (r Report) Drift() bool { return len(r.Repairs()) > 0 }

// Repairs are the ops that put right what another program changed. Repaired are those
// that were carried out.
func (r Report) Repairs() []kernel.Op  { return r.repairs(r.Plan.Ops) }
func (r Report) Repaired() []kernel.Op { return r.repairs(kernel.Done(r.Plan.Ops, r.Err)) }

func (r Report) repairs(ops []kernel.Op) []kernel.Op {
	if r.Cause != CausePeriod && r.Cause != CauseAsked {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(ops), EndsDrain)
}

// EndsDrain says whether an op removes a real server that had no weight any
// more: its connections have ended, which is nobody's doing.
func EndsDrain(o kernel.Op) bool {
	if o.Verb != kernel.Remove { // a start has thousands of those
		return false
	}
	real, ok := o.Object.(kernel.Real)
	return ok && real.Weight == 0
}

// maxDriftLines bounds what one sync says about drift.
const maxDriftLines = 20

// failures says why syncs fail: each reason once, however often it is tried again,
// and when they succeed.
type failures struct {
	reason string // of the last one; "" if it succeeded
	count  int
}

func (f *failures) hear(log *slog.Logger, r Report) {
	if r.Err == nil {
		if f.count > 0 {
			log.Info("syncs succeed again", "failed", f.count)
		}
		*f = failures{}
		return
	}
	f.count++
	level := slog.LevelDebug
	if reason := r.Err.Error(); reason != f.reason {
		f.reason, level = reason, slog.LevelError
	}
	log.Log(context.Background(), level, "sync failed", "cause", r.Cause, "err", r.Err)
}

// log says in one line what a sync did, and nothing when it did nothing.
// Drift is named object by object, with what was there and what is.
func (r Report) log(log *slog.Logger) {
	failed := 0
	if e, ok := r.Err.(*kernel.ApplyError); ok {
		failed = len(e.Failed)
	}
	if failed == len(r.Plan.Ops) {
		return
	}
	repairs := r.Repairs()
	level := slog.LevelInfo
	if len(repairs) > 0 {
		level = slog.LevelWarn
	}
	logged := make(map[string]bool)
	for _, c := range r.Sysctls() {
		logged[c.Name] = true
		log.Log(context.Background(), level, "sysctl", "name", c.Name, "from", c.From, "to", c.To, "cause", string(r.Cause))
	}
	repairs = slices.DeleteFunc(repairs, func(o kernel.Op) bool {
		s, ok := o.Object.(kernel.Sysctl)
		return ok && logged[s.Name]
	})
	for i, o := range repairs {
		if i == maxDriftLines {
			log.Warn("drift", "more", len(repairs)-i)
			break
		}
		log.Warn("drift", "repair", o.String())
	}
	add, change, remove := r.Plan.Counts()
	attrs := []any{
		"cause", string(r.Cause), "add", add, "change", change, "remove", remove, "draining", r.Plan.Draining,
		"services", r.Services, "virtuals", r.Virtuals, "reals", r.Reals,
	}
	if s, ok := r.Stages(); ok {
		attrs = append(attrs, "parse", s.Parse.Round(time.Microsecond), "plan", s.Plan.Round(time.Microsecond),
			"apply", s.Apply.Round(time.Microsecond), "total", s.Total.Round(time.Microsecond))
	}
	attrs = append(attrs, "took", r.Duration.Round(time.Microsecond))
	if r.Routed > 0 {
		attrs = append(attrs, "bound", r.Bound, "routed", r.Routed)
	}
	if n := len(r.Plan.Probes); n > 0 {
		attrs = append(attrs, "probing", n)
	}
	if failed > 0 {
		attrs = append(attrs, "failed", failed)
	}
	if len(r.Waiting) > 0 {
		attrs = append(attrs, "waiting", r.Waiting)
	}
	log.Info("synced", attrs...)
}

package proxy

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// maxDriftLines is how many repairs of one sync are logged.
const maxDriftLines = 20

// maxChangeLines is how many changed services of one sync are logged and named by its event.
const maxChangeLines = 10

// logChanges logs each changed service: what differs, where it is defined, and who asked for the files to be read. It
// counts those after the first maxChangeLines.
func (s *Snapshot) logChanges(log *slog.Logger, c CauseSet) {
	for _, change := range s.Changes {
		attrs := []any{"service", change.Service, "what", change.What, "source", change.Origin.String(), "cause", c.First()}
		if s.Asker != "" && change.Origin.Source != sources.APIServer {
			attrs = append(attrs, "by", s.Asker)
		}
		log.Info("service "+change.Verb, attrs...)
	}
	if more := len(s.Delta.Changes) - len(s.Changes); more > 0 && len(s.Changes) > 0 {
		log.Info("services changed", "more", more)
	}
}

// failureLog logs why syncs fail, each reason once in a row, and when they succeed
// again.
type failureLog struct {
	log    *slog.Logger
	reason string // of the last sync; "" if it succeeded
	count  int
}

func (f *failureLog) report(r Report) {
	if r.Err == nil && r.Left > 0 {
		return // what failed may be among the ops that are left
	}
	if r.Err == nil {
		if f.count > 0 {
			f.log.Info("syncs succeed again", "failed", f.count)
		}
		f.reason, f.count = "", 0
		return
	}
	f.count++
	level := slog.LevelDebug
	if reason := r.Err.Error(); reason != f.reason {
		f.reason, level = reason, slog.LevelError
	}
	f.log.Log(context.Background(), level, "sync failed", "cause", r.Causes.First(), "err", r.Err)
}

// log logs the sync in one line, unless it changed nothing. Each repair of drift gets
// its own line with the object before and after.
func (r Report) log(log *slog.Logger) {
	failed := 0
	if e, ok := r.Err.(*kernel.ApplyError); ok {
		failed = len(e.Failed)
	}
	if failed == len(r.Plan.Ops) {
		return
	}
	repairs := r.Repairs
	level := slog.LevelInfo
	if len(repairs) > 0 {
		level = slog.LevelWarn
	}
	logged := make(map[string]bool)
	for _, c := range r.Sysctls() {
		logged[c.Name] = true
		log.Log(context.Background(), level, "sysctl", "name", c.Name, "from", c.From, "to", c.To, "cause", r.Causes.First())
	}
	repairs = slices.DeleteFunc(slices.Clone(repairs), func(o kernel.Op) bool {
		s, ok := o.Object.(kernel.Sysctl)
		return ok && logged[s.Name]
	})
	for i, o := range repairs {
		if i == maxDriftLines {
			log.Warn("drift", "more", len(repairs)-i)
			break
		}
		attrs := []any{"repair", o.String()}
		if r.By != "" {
			attrs = append(attrs, "by", r.By)
		}
		log.Warn("drift", attrs...)
	}
	add, change, remove := r.Plan.Counts()
	attrs := []any{
		"cause", r.Causes.First(), "add", add, "change", change, "remove", remove, "draining", r.Plan.Draining,
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
	} else if r.Err != nil {
		attrs = append(attrs, "unread", true)
	}
	if r.Left > 0 {
		attrs = append(attrs, "left", r.Left)
	}
	if len(r.Waiting) > 0 {
		attrs = append(attrs, "waiting", r.Waiting)
	}
	log.Info("synced", attrs...)
}

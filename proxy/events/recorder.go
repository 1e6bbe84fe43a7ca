package events

import (
	"errors"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/sources"
)

// Recorder adds events to a Ring. Fill in Ring.
type Recorder struct {
	Ring *Ring

	before *proxy.Snapshot // of the last sync; used by the loop's goroutine only

	mu     sync.Mutex
	errors map[string]string // the last error of each source
}

// Synced adds the events of a sync. Call it after every sync, in order.
func (r *Recorder) Synced(now *proxy.Snapshot) {
	r.Ring.Add(ofSync(r.before, now)...)
	failed := r.before
	r.before = now.Kept()
	if now.Report.Left > 0 && now.Report.Err == nil && failed != nil {
		r.before.Report.Err = failed.Report.Err // what failed may be among the ops that are left
	}
}

// Source adds an event if a source reports another error than before, or none any
// more. Call it for everything that a source delivers.
func (r *Recorder) Source(state proxy.SourceState) {
	text := errorText(state.Err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if text == r.errors[state.Name] {
		return
	}
	if r.errors == nil {
		r.errors = map[string]string{}
	}
	r.errors[state.Name] = text
	e := Event{Time: time.Now(), Kind: Accepted, Text: sources.WordsFor(state.Name).Good}
	if text != "" {
		e.Kind, e.Text = Refused, sources.Complaint(state.Name, text)
	}
	r.Ring.Add(e)
}

// errorText is a source's error in one line; "" if there is none.
func errorText(err error) string {
	var rejected *sources.RejectedError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &rejected) && len(rejected.Problems) > 0:
		return joined(rejected.Problems, sources.Problem.Error)
	}
	return err.Error()
}

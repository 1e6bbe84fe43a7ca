package events

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/sources"
)

// Recorder writes down what the loop reports. Fill in Ring.
type Recorder struct {
	Ring *Ring

	before *proxy.Snapshot // of the loop's goroutine alone

	mu   sync.Mutex
	said map[string]string // the last error of each source
}

// Synced is to be told of every sync, in order.
func (s *Recorder) Synced(now *proxy.Snapshot) {
	s.Ring.Add(between(s.before, now)...)
	s.before = now.Kept()
}

// Source is to be told of everything a source emits.
func (s *Recorder) Source(state proxy.SourceState) {
	text := complaint(state.Err)
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.said[state.Name]
	if text == last {
		return
	}
	if s.said == nil {
		s.said = map[string]string{}
	}
	s.said[state.Name] = text
	e := Event{Time: time.Now(), Kind: Accepted, Text: "source " + state.Name + " has nothing to refuse any more"}
	if text != "" {
		e.Kind, e.Text = Refused, "source "+state.Name+": "+text
	}
	s.Ring.Add(e)
}

// complaint is a source's error in one line; "" if there is none.
func complaint(err error) string {
	var rejected *sources.RejectedError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &rejected) && len(rejected.Problems) > 0:
		return joined(rejected.Problems, sources.Problem.Error)
	}
	return err.Error()
}

// between says what happened from one sync to the next; before is nil at the
// first.
func between(before, now *proxy.Snapshot) []Event {
	if before == nil {
		before = &proxy.Snapshot{}
	}
	r := &now.Report
	var list []Event
	add := func(e Event) {
		e.Time, e.Cause = r.End(), string(r.Cause)
		list = append(list, e)
	}
	if e, ok := outcome(before, now); ok {
		add(e)
	}
	for _, c := range r.Sysctls() {
		add(Event{Kind: Sysctl, Text: c.String()})
	}
	for _, c := range r.Plan.Conflicts {
		if !slices.Contains(before.Report.Plan.Conflicts, c) {
			add(Event{Kind: Conflict, Text: c.String()})
		}
	}
	list = append(list, leftOut(before, now)...)
	for _, t := range r.Plan.Taken {
		if !slices.Contains(before.Report.Plan.Taken, t) {
			add(Event{Kind: Conflict, Text: t.String()})
		}
	}
	for _, w := range now.Warnings {
		if !slices.Contains(before.Warnings, w) {
			add(Event{Kind: Warning, Text: w})
		}
	}
	if begun := drainsBegun(before.Drains, now.Drains); len(begun) > 0 {
		add(Event{Kind: Draining, Text: named(begun)})
	}
	if ended := drainsEnded(r.Plan.Ops); len(ended) > 0 {
		add(Event{Kind: Drained, Text: named(ended)})
	}
	switch was, is := before.Report.Err, r.Err; {
	case is != nil && (was == nil || was.Error() != is.Error()):
		add(Event{Kind: Failed, Text: is.Error()})
	case is == nil && was != nil:
		add(Event{Kind: Recovered, Text: "all is as it should be again"})
	}
	return list
}

// leftOut says what is left out of the table, or in it again, since the sync
// before.
func leftOut(before, now *proxy.Snapshot) []Event {
	was, is := before.Report.Problems, now.Report.Problems
	news := slices.DeleteFunc(slices.Clone(is), func(p sources.Problem) bool { return slices.Contains(was, p) })
	e := Event{Time: now.Report.End(), Cause: string(now.Report.Cause), Kind: LeftOut}
	switch {
	case len(news) > 0:
		e.Text = joined(news, sources.Problem.Error)
		for _, p := range news {
			e.Services = append(e.Services, p.Service)
		}
		e.Services = slices.Compact(e.Services)
	case len(was) > 0 && len(is) == 0:
		e.Kind, e.Text = Recovered, "nothing is left out any more"
	default:
		return nil
	}
	return []Event{e}
}

// outcome is what a sync did to the kernel, but for the ends of drains.
func outcome(before, now *proxy.Snapshot) (Event, bool) {
	r := &now.Report
	if repairs := r.Repairs(); len(repairs) > 0 {
		return Event{Kind: Drift, Text: repaired(repairs), Ops: count(repairs, r.Err)}, true
	}
	e := Event{Kind: kindOf(r.Cause), Times: timesOf(r)}
	ops := r.Plan.Ops
	if slices.ContainsFunc(ops, proxy.EndsDrain) {
		ops = slices.DeleteFunc(slices.Clone(ops), proxy.EndsDrain)
	}
	if len(ops) > 0 {
		e.Ops = count(ops, r.Err)
	}
	if r.Cause == proxy.CauseStart { // all services, unnamed
		e.Text = fmt.Sprintf("%d services, %d virtual servers, %d real servers", r.Services, r.Virtuals, r.Reals)
		return e, true
	}
	if !r.Changed.IsZero() {
		for _, c := range sources.Changes(before.Table, now.Table) {
			e.Services = append(e.Services, c.Name)
		}
	}
	e.Text = difference(before.Table, now.Table, e.Services)
	// A retry in vain is not worth a word each time.
	return e, len(e.Services) > 0 || len(ops) > 0 && e.Ops.Failed < len(ops)
}

func kindOf(c proxy.Cause) Kind {
	switch c {
	case proxy.CauseStart:
		return Started
	case proxy.CauseNode:
		return Node
	case proxy.CauseConfig:
		return Config
	}
	return Table
}

// timesOf are when the change in a sync passed its stages; nil if it was about
// none.
func timesOf(r *proxy.Report) *Times {
	if _, ok := r.Stages(); !ok {
		return nil
	}
	return &Times{Seen: r.Seen, Parsed: r.Changed, Planned: r.Planned, Acknowledged: r.End()}
}

// count counts ops, and the failures among them.
func count(ops []kernel.Op, err error) *Ops {
	var n Ops
	n.Add, n.Change, n.Remove = kernel.Plan{Ops: ops}.Counts()
	if e, ok := err.(*kernel.ApplyError); ok {
		n.Failed = len(e.Failed)
	}
	return &n
}

// difference says how many services changed, and how.
func difference(before, now sources.Table, names []string) string {
	var added, changed, removed int
	for _, full := range names {
		namespace, name, _ := strings.Cut(full, "/")
		_, was := before.Lookup(namespace, name)
		_, is := now.Lookup(namespace, name)
		switch {
		case !was:
			added++
		case !is:
			removed++
		default:
			changed++
		}
	}
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{added, "added"}, {changed, "changed"}, {removed, "removed"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	if len(parts) == 0 {
		return "no service changed"
	}
	return strings.Join(parts, ", ")
}

// drainsBegun are the real servers that drain and did not before. Both lists are
// in Diff's order, which is that of their keys.
func drainsBegun(before, now []kernel.Drain) []kernel.RealKey {
	var begun []kernel.RealKey
	for _, d := range now {
		_, was := slices.BinarySearchFunc(before, d.Real, func(b kernel.Drain, k kernel.RealKey) int { return b.Real.Compare(k) })
		if !was {
			begun = append(begun, d.Real)
		}
	}
	return begun
}

func drainsEnded(ops []kernel.Op) []kernel.RealKey {
	var ended []kernel.RealKey
	for _, o := range ops {
		if proxy.EndsDrain(o) {
			ended = append(ended, o.Object.(kernel.Real).Key)
		}
	}
	return ended
}

// maxNamed is how many objects one line names.
const maxNamed = 5

func named(reals []kernel.RealKey) string {
	return joined(reals, func(k kernel.RealKey) string {
		return fmt.Sprintf("%s of %s/%s", k.Addr, k.Virtual.Addr, k.Virtual.Proto)
	})
}

func repaired(ops []kernel.Op) string { return joined(ops, kernel.Op.String) }

func joined[T any](list []T, text func(T) string) string {
	var parts []string
	for i, v := range list {
		if i == maxNamed {
			parts = append(parts, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		parts = append(parts, text(v))
	}
	return strings.Join(parts, "; ")
}

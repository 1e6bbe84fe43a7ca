package events

import (
	"fmt"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/sources"
)

// ofSync lists what happened between two syncs; before is nil at the first one.
func ofSync(before, now *proxy.Snapshot) []Event {
	if before == nil {
		before = &proxy.Snapshot{}
	}
	r := &now.Report
	var list []Event
	add := func(e Event) {
		e.Time, e.Cause = r.End(), string(r.Causes.First())
		list = append(list, e)
	}
	if e, ok := drift(r); ok {
		add(e)
	}
	if e, ok := change(before, now); ok {
		add(e)
	}
	for _, c := range r.Sysctls() {
		add(Event{Kind: Sysctl, Text: c.String()})
	}
	for _, c := range added(before.Report.Plan.Conflicts, r.Plan.Conflicts) {
		add(Event{Kind: Conflict, Text: c.String()})
	}
	if e, ok := leftOut(before.Report.Problems, r.Problems); ok {
		add(e)
	}
	for _, t := range added(before.Report.Plan.Taken, r.Plan.Taken) {
		add(Event{Kind: Conflict, Text: t.String()})
	}
	for _, w := range added(before.Warnings, now.Warnings) {
		add(Event{Kind: Warning, Text: w})
	}
	if begun := drainsBegun(before.Drains, now.Drains); len(begun) > 0 {
		add(Event{Kind: Draining, Text: realTexts(begun)})
	}
	if ended := drainsEnded(before.Drains, r.Plan.Ops); len(ended) > 0 {
		add(Event{Kind: Drained, Text: realTexts(ended)})
	}
	for _, e := range ofAnnouncements(before.Announced, now.Announced) {
		add(e)
	}
	switch was, is := before.Report.Err, r.Err; {
	case is != nil && (was == nil || was.Error() != is.Error()):
		add(Event{Kind: Failed, Text: is.Error()})
	case is == nil && was != nil && r.Left == 0:
		add(Event{Kind: Recovered, Text: "all is as it should be again"})
	}
	return list
}

// added lists what a list has and an earlier one had not.
func added[T comparable](before, now []T) []T {
	var list []T
	for _, v := range now {
		if !slices.Contains(before, v) {
			list = append(list, v)
		}
	}
	return list
}

// leftOut says which services are newly left out, or that none is any more.
func leftOut(before, now []sources.Problem) (Event, bool) {
	news := added(before, now)
	switch {
	case len(news) > 0:
		e := Event{Kind: LeftOut, Text: joined(news, sources.Problem.Error)}
		for _, p := range news {
			e.Services = append(e.Services, p.DisplayName())
		}
		e.Services = slices.Compact(e.Services)
		return e, true
	case len(before) > 0 && len(now) == 0:
		return Event{Kind: Recovered, Text: "nothing is left out any more"}, true
	}
	return Event{}, false
}

// drift is what a sync undid of another program's changes.
func drift(r *proxy.Report) (Event, bool) {
	if len(r.Repairs) == 0 {
		return Event{}, false
	}
	text := joined(r.Repairs, kernel.Op.String)
	if r.By != "" {
		text = "after " + r.By + " changed rules: " + text
	}
	return Event{Kind: Drift, Text: text, Ops: count(r.Repairs, nil)}, true
}

// change is what a sync did to the kernel, except ending drains and undoing drift; false if it did
// nothing, or nothing new.
func change(before, now *proxy.Snapshot) (Event, bool) {
	r := &now.Report
	if r.Causes.Has(proxy.CauseHealth) && !now.Sourced && !r.Causes.Has(proxy.CauseStart) {
		return Event{}, false // events of Health say what happened to endpoints
	}
	e := Event{Kind: kindOf(r.Causes), Times: timesOf(r)}
	undoes := make(map[kernel.Op]bool, len(r.Repairs))
	for _, o := range r.Repairs {
		undoes[o] = true
	}
	ops, other := r.Plan.Ops, func(o kernel.Op) bool {
		return undoes[o] || proxy.EndsDrain(o) || endsRuleDrain(before.Drains, o)
	}
	if slices.ContainsFunc(ops, other) {
		ops = slices.DeleteFunc(slices.Clone(ops), other)
	}
	if len(ops) > 0 {
		e.Ops = count(ops, r.Err)
	}
	if r.Causes.Has(proxy.CauseStart) { // it is about every service, so it names none
		e.Text = fmt.Sprintf("%s, %s, %s", sources.Count(r.Services, "service"), sources.Count(r.Virtuals, "virtual server"),
			sources.Count(r.Reals, "real server"))
		return e, true
	}
	var delta sources.Delta
	// Without a change of a source the node withholds something, or no more: leftOut names the services.
	if !r.Changed.IsZero() && now.Sourced {
		delta = now.Delta
	}
	for _, c := range delta.Changes {
		e.Services = append(e.Services, c.DisplayName())
	}
	e.Text = difference(delta)
	if len(delta.Changes) > 0 {
		for _, c := range now.Changes {
			e.Changes = append(e.Changes, c.String())
		}
		if slices.ContainsFunc(delta.Changes, func(c sources.Change) bool { return c.Source != sources.APIServer }) {
			e.By = now.Asker
		}
	}
	// A retry in which everything fails again is no event.
	return e, len(e.Services) > 0 || len(ops) > 0 && e.Ops.Failed < len(ops)
}

// kindOf is the kind of event that a sync with these causes makes.
func kindOf(causes proxy.CauseSet) Kind {
	switch causes.First() {
	case proxy.CauseStart:
		return Started
	case proxy.CauseNode:
		return Node
	case proxy.CauseConfig:
		return Config
	}
	return Table
}

// timesOf is when the change in a sync passed its stages; nil if no source was
// behind the sync.
func timesOf(r *proxy.Report) *Times {
	if _, ok := r.Stages(); !ok {
		return nil
	}
	return &Times{Seen: r.Seen, Parsed: r.Changed, Planned: r.Planned, Acknowledged: r.End()}
}

// count counts ops and the failures of their sync.
func count(ops []kernel.Op, err error) *Ops {
	var n Ops
	n.Add, n.Change, n.Remove = kernel.Plan{Ops: ops}.Counts()
	if e, ok := err.(*kernel.ApplyError); ok {
		n.Failed = len(e.Failed)
	}
	return &n
}

// difference says how many services were added, changed and removed.
func difference(d sources.Delta) string {
	added, changed, removed := d.Counts()
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{added, "added"}, {changed, "changed"}, {removed, "removed"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	if d.Lists {
		parts = append(parts, "lists of clients changed")
	}
	if len(parts) == 0 {
		return "no service changed"
	}
	return strings.Join(parts, ", ")
}

package status

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/condition"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/sources"
)

// Input is what New makes a Status of.
type Input struct {
	Now      time.Time
	Daemon   Daemon
	Healthy  bool
	Snapshot *proxy.Snapshot // nil before the first sync
	Sources  []proxy.SourceState
	History  History
	Running  *proxy.Running  // the sync in progress, nil between syncs
	Counters kernel.Counters // zero if they are not known
	Full     reals           // of Counters: see fullReals
	// Counted: Counters are known and newer than Snapshot. So the kernel lacks what is
	// not in them.
	Counted bool
	// Conditions are those that stand.
	Conditions []condition.Condition
	Warnings   []string // in addition to the snapshot's
	// Health is what is known of health checks and orders; nil if nothing is.
	Health *health.View
}

// maxSourceErrors bounds the errors that are listed for one source.
const maxSourceErrors = 20

// New makes a status. It is pure.
func New(in Input) Status {
	if in.Snapshot == nil {
		in.Snapshot = &proxy.Snapshot{}
	}
	rules := in.Snapshot.ByRules()
	if rules {
		in.Counters = byRules(in.Counters)
	}
	st := Status{
		Time: in.Now.UTC(), Daemon: in.daemon(), Healthy: in.Healthy,
		Warnings:  append(append([]string{}, in.Snapshot.Warnings...), in.Warnings...),
		Uncounted: rules, NewOnly: rules && in.Counters.Chosen != nil,
		Sync: syncOf(in), Sources: []Source{}, Faults: []Fault{}, Conflicts: []Conflict{},
		Conntrack: flowsOf(in.Counters),
	}
	for _, s := range in.Sources {
		st.Sources = append(st.Sources, in.source(s))
	}
	b := newBuilder(in)
	st.Services, st.Conflicts, st.Faults = b.build(), b.conflicts(), b.faults()
	attach(st.Services, st.Faults)
	st.Digest, st.ConnSync = digestOf(st.Services), connSyncOf(&in.Snapshot.Want, &in, st.Faults)
	st.Drains = drainsOf(st.Services)
	st.Totals = b.totals(st.Services)
	for _, c := range in.Conditions {
		c.Since = in.at(c.Since)
		st.Conditions = append(st.Conditions, c)
	}
	st.Announced = announcedOf(in.Snapshot.Announced)
	st.Health, st.Warnings = b.checks.all(st.Services), append(st.Warnings, b.checks.warnings()...)
	st.Problems, st.Down = problems(&st), downLines(st.Services)
	if st.Uncounted {
		st.uncount()
	}
	return st
}

// syncOf describes the last sync, the one in progress, and the last changes.
func syncOf(in Input) Sync {
	r := in.Snapshot.Report
	s := Sync{
		Cause: string(r.Causes.First()), Start: in.at(r.Start), Seconds: seconds(r.Duration),
		Succeeded: in.at(in.Snapshot.Succeeded),
		Since:     in.at(in.History.since), Failures: in.History.failures, Waiting: append([]string{}, r.Waiting...),
		Running: runningOf(in.Running, in.Now), Change: in.change(in.History.change), Drift: in.change(in.History.drift),
	}
	if r.Err != nil {
		s.Error = r.Err.Error()
	}
	return s
}

// change is a change with its times by the clock of now.
func (in Input) change(c *Change) *Change {
	if c == nil {
		return nil
	}
	u := *c
	u.Seen, u.Parsed, u.Planned, u.Acknowledged = in.at(c.Seen), in.at(c.Parsed), in.at(c.Planned), in.at(c.Acknowledged)
	return &u
}

// source describes a source and its errors.
func (in Input) source(s proxy.SourceState) Source {
	from := Source{Name: s.Name, Delivered: s.Delivered, Progress: s.Progress, Since: in.at(s.Since),
		Errors: sourceErrors(s.Err), Stale: []Stale{}, Unserved: []string{}}
	var rejected *sources.RejectedError
	if errors.As(s.Err, &rejected) {
		for _, f := range rejected.Stale {
			from.Stale = append(from.Stale, Stale{File: f.Path, Good: f.Good.UTC()})
		}
		from.Unserved = append(from.Unserved, rejected.Unserved...)
	}
	if s.Others.Count > 0 {
		from.Others = &s.Others
	}
	return from
}

// sourceErrors lists the problems of a source's error, one line each.
func sourceErrors(err error) []string {
	var rejected *sources.RejectedError
	switch {
	case err == nil:
		return []string{}
	case !errors.As(err, &rejected) || len(rejected.Problems) == 0:
		return []string{err.Error()}
	}
	var list []string
	for i, p := range rejected.Problems {
		if i == maxSourceErrors {
			return append(list, fmt.Sprintf("and %d more", len(rejected.Problems)-i))
		}
		list = append(list, p.Error())
	}
	return list
}

// maxDrains bounds Status.Drains.
const maxDrains = 100

// drainsOf lists the draining endpoints, those with the most connections first.
func drainsOf(services []Service) []Draining {
	list := []Draining{}
	for i := range services {
		for _, e := range services[i].Endpoints {
			if e.State == EndpointDraining {
				list = append(list, Draining{services[i].Name, e})
			}
		}
	}
	kernel.SortStableFunc(list, func(a, b Draining) int { return cmp.Compare(b.Active+b.Inactive, a.Active+a.Inactive) })
	return list[:min(len(list), maxDrains)]
}

package proxy

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// longSync is how long a sync may take before it is reported.
const longSync = 2 * time.Second

// maxNamed is how many services one line names.
const maxNamed = 3

// Long reports whether a sync has been running for longSync.
func (r *Running) Long() bool { return r != nil && time.Since(r.Start) >= longSync }

// String says how far the sync is: "a sync (table) is in progress for 12s: 300 of 7000 steps, 20 of 700 new
// VIPs are loaded".
func (r *Running) String() string {
	text := fmt.Sprintf("a sync (%s) is in progress for %v", r.Cause, time.Since(r.Start).Round(time.Second))
	if r.Of > 0 {
		text += fmt.Sprintf(": %d of %d steps", r.Done, r.Of)
	}
	if r.NewVIPs > 0 {
		text += fmt.Sprintf(", %d of %d new VIPs are loaded", r.VIPs, r.NewVIPs)
	}
	return text
}

// Degraded returns a few short lines about what is wrong, for health checks and
// systemd. svcproxy status says more. It may be called from any goroutine.
func (p *Proxy) Degraded() []string {
	var lines []string
	now := p.Snapshot()
	if r := p.Running(); r.Long() {
		lines = append(lines, r.String())
	}
	if now != nil && now.Report.Err != nil {
		lines = append(lines, "the last sync failed: "+firstLine(now.Report.Err))
	}
	for _, s := range p.Sources() {
		if s.Err != nil {
			lines = append(lines, sources.Complaint(s.Name, firstLine(s.Err)))
		}
	}
	if now != nil {
		if n := len(now.Report.Plan.Conflicts); n > 0 {
			lines = append(lines, fmt.Sprintf("%s of another program, first %s", sources.Count(n, "virtual server"),
				now.Report.Plan.Conflicts[0].Want.Key))
		}
		if line := LeftOut(now); line != "" {
			lines = append(lines, line)
		}
		lines = append(lines, now.Warnings[:min(now.Barred, maxNamed)]...)
	}
	if line := Empty(p.idle.of(now)); line != "" {
		lines = append(lines, line)
	}
	return lines
}

// LeftOut says how many parts of services are not served because another service has
// them or the node does not permit it: "3 parts of services not served, first of
// web". It is "" if there are none.
func LeftOut(now *Snapshot) string {
	if now == nil || len(now.Report.Problems) == 0 {
		return ""
	}
	first := now.Report.Problems[0].DisplayName()
	if n := len(now.Report.Problems); n > 1 {
		return fmt.Sprintf("%d parts of services not served, first of %s", n, first)
	}
	return "a part of " + first + " not served"
}

// Empty says which services have no backends: "2 services without backends: a, b". It is "" for no names.
func Empty(names []string) string {
	if len(names) == 0 {
		return ""
	}
	text := sources.Count(len(names), "service") + " without backends: " +
		strings.Join(names[:min(len(names), maxNamed)], ", ")
	if more := len(names) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// idleServices are the services without backends of the last snapshot that was asked
// for: health checks ask for the same one many times.
type idleServices struct {
	mu       sync.Mutex
	snapshot *Snapshot
	names    []string
}

func (s *idleServices) of(now *Snapshot) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.snapshot != now {
		s.snapshot, s.names = now, now.WithoutBackends()
	}
	return s.names
}

// maxLine limits an error in one of the lines, in bytes.
const maxLine = 200

func firstLine(err error) string {
	var rejected *sources.RejectedError
	text := err.Error()
	if errors.As(err, &rejected) && len(rejected.Problems) > 0 {
		text = rejected.Problems[0].Error()
		if more := len(rejected.Problems) - 1; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
	}
	text, _, _ = strings.Cut(text, "\n")
	if len(text) > maxLine {
		text = strings.ToValidUTF8(text[:maxLine], "") + "..."
	}
	return text
}

package proxy

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// longSync is how long a sync may take without being mentioned, and maxNamed how
// many services one line names.
const (
	longSync = 2 * time.Second
	maxNamed = 3
)

// Long says whether a sync has been in progress for so long that it is worth a word.
func (r *Running) Long() bool { return r != nil && time.Since(r.Start) >= longSync }

// String is how far it is: "a sync (table) is in progress for 12s: 300 of 7000 steps".
func (r *Running) String() string {
	text := fmt.Sprintf("a sync (%s) is in progress for %v", r.Cause, time.Since(r.Start).Round(time.Second))
	if r.Of > 0 {
		text += fmt.Sprintf(": %d of %d steps", r.Done, r.Of)
	}
	return text
}

// Degraded says in a few short lines what is not as it should be, for those who ask
// often; svcproxy status says more. It may be called from any goroutine.
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
			lines = append(lines, fmt.Sprintf("source %s: %s", s.Name, firstLine(s.Err)))
		}
	}
	if now != nil {
		if n := len(now.Report.Plan.Conflicts); n > 0 {
			lines = append(lines, fmt.Sprintf("%s of another program, first %s", several(n, "virtual server"), now.Report.Plan.Conflicts[0].Want.Key))
		}
		if line := LeftOut(now); line != "" {
			lines = append(lines, line)
		}
	}
	if now != nil {
		lines = append(lines, now.Warnings[:min(now.Barred, maxNamed)]...)
	}
	if line := Empty(p.empty(now)); line != "" {
		lines = append(lines, line)
	}
	return lines
}

// LeftOut says what of services is not served, because another one has it or the
// node stands in the way: "3 parts of services not served, first of default/web";
// "" for nothing.
func LeftOut(now *Snapshot) string {
	if now == nil || len(now.Report.Problems) == 0 {
		return ""
	}
	first := now.Report.Problems[0].Service
	if n := len(now.Report.Problems); n > 1 {
		return fmt.Sprintf("%d parts of services not served, first of %s", n, first)
	}
	return "a part of " + first + " not served"
}

// Empty says which services have no backends: "2 services without backends:
// default/a, default/b"; "" for none.
func Empty(names []string) string {
	if len(names) == 0 {
		return ""
	}
	text := several(len(names), "service") + " without backends: " + strings.Join(names[:min(len(names), maxNamed)], ", ")
	if more := len(names) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// empty is WithoutBackends, found once for each snapshot.
func (p *Proxy) empty(now *Snapshot) []string {
	p.emptied.Lock()
	defer p.emptied.Unlock()
	if p.emptied.of != now {
		p.emptied.of, p.emptied.names = now, now.WithoutBackends()
	}
	return p.emptied.names
}

// maxLine bounds an error in one of the short lines, in bytes.
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

func several(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "s"):
		return fmt.Sprintf("%d %ses", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

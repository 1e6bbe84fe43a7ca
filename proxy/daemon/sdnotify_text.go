package daemon

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/sources"
)

// statusText is the line that systemctl status shows: what is served, then what is
// wrong. now is nil before the first sync.
func statusText(now *proxy.Snapshot, running *proxy.Running, states []proxy.SourceState, wrong []string) string {
	parts := []string{served(now)}
	if running.Long() {
		parts = append(parts, running.String())
	}
	if empty := proxy.Empty(now.WithoutBackends()); empty != "" {
		parts = append(parts, empty)
	}
	if left := proxy.LeftOut(now); left != "" {
		parts = append(parts, left)
	}
	parts = append(parts, wrong...)
	if silent := silent(states); len(silent) > 0 {
		parts = append(parts, "waiting for "+strings.Join(silent, ", "))
	}
	for _, s := range states {
		if s.Err != nil {
			parts = append(parts, fmt.Sprintf("%s (since %s)", sources.Complaint(s.Name, short(s.Err)), s.Since.Format(clock)))
		}
	}
	if now != nil && now.Report.Err != nil {
		parts = append(parts, "last sync failed: "+short(now.Report.Err))
	}
	return strings.Join(parts, "; ")
}

const clock = "15:04:05"

func served(now *proxy.Snapshot) string {
	if now == nil || now.Report.Planned.IsZero() && now.Succeeded.IsZero() {
		return "not yet synced"
	}
	r := now.Report
	// Not the report's counts: they are zero if the kernel could not be read.
	text := fmt.Sprintf("%s, %s", sources.Count(now.Table.Services.Len(), "service"),
		sources.Count(now.Reals(), "real server"))
	switch {
	case now.Succeeded.IsZero():
		return text + ", not yet synced"
	case r.Err != nil || r.Left > 0:
		return text + ", synced " + now.Succeeded.Format(clock)
	}
	return fmt.Sprintf("%s, synced %s (%d ms)", text, now.Succeeded.Format(clock), r.Duration.Milliseconds())
}

// silent lists the sources that have not delivered a table yet.
func silent(states []proxy.SourceState) []string {
	var names []string
	for _, s := range states {
		if !s.Delivered {
			name := sources.WordsFor(s.Name).Name
			if s.Progress != "" {
				name += " (" + s.Progress + ")"
			}
			names = append(names, name)
		}
	}
	return names
}

// longest is how many bytes of an error the status line shows; the log has all of it.
const longest = 160

// short is the first line of an error, cut to the longest length.
func short(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= longest {
		return text
	}
	cut := longest
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "..."
}

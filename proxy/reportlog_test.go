package proxy

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/sources"
)

// Each changed service has a line, and those after the tenth are counted.
func TestLogChanges(t *testing.T) {
	var now sources.Table
	for name := 'a'; name <= 'l'; name++ {
		now.Services = now.Services.Append(sources.Service{Namespace: "default", Name: string(name), Origin: sources.Origin{File: "/etc/s.toml", Line: 3}})
	}
	log := func(before, now sources.Table, by string) []string {
		d := sources.Compare(before, now)
		s := Snapshot{Delta: d, Changes: sources.Describe(before, now, d, maxChangeLines), Asker: by}
		var out strings.Builder
		s.logChanges(slog.New(slog.NewTextHandler(&out, nil)), CausesOf(CauseTable))
		return strings.Split(strings.TrimSpace(out.String()), "\n")
	}
	lines := log(sources.Table{}, now, "root (uid 0)")
	if want := `msg="service added" service=a what="0 addresses, 0 ports, 0 endpoints" source=/etc/s.toml:3 cause=table by="root (uid 0)"`; !strings.HasSuffix(lines[0], want) {
		t.Errorf("%s, want %s", lines[0], want)
	}
	if len(lines) != maxChangeLines+1 || !strings.HasSuffix(lines[maxChangeLines], `msg="services changed" more=2`) {
		t.Errorf("%d lines, the last %s", len(lines), lines[len(lines)-1])
	}
	now.Services.At(1).Origin = sources.Origin{Source: sources.APIServer}
	if lines := log(sources.Table{}, now, "root (uid 0)"); !strings.Contains(lines[0], "by=") || !strings.HasSuffix(lines[1], `service=default/b what="0 addresses, 0 ports, 0 endpoints" source=apiserver cause=table`) {
		t.Errorf("a change of the API server while the files are read: %q", lines[:2])
	}
	if lines := log(now, now, ""); lines[0] != "" {
		t.Errorf("nothing changed: %q", lines)
	}
}

package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/proxy/screen"
	"github.com/svcproxy/svcproxy/sources"
)

// page builds the text of a status.
type page struct {
	strings.Builder
	st *Status
	View
}

// line adds a line, cut to the width of the terminal.
func (p *page) line(style screen.Style, format string, args ...any) {
	text := screen.Clean(fmt.Sprintf(format, args...))
	if p.Width > 0 {
		text = screen.Cut(text, p.Width)
	}
	p.WriteString(screen.Paint(text, style, p.Colours) + "\n")
}

func (p *page) columns(c *screen.Columns) {
	for _, line := range c.Lines(p.Width, p.Colours) {
		p.WriteString(line + "\n")
	}
}

// overview writes the daemon, what is wrong, and a row for each service.
func (p *page) overview() {
	st := p.st
	p.lines(p.daemon(), p.counts())
	p.list("degraded", screen.Bad, p.problems())
	p.list("down", screen.Bad, st.Down)
	p.list("refused by the kernel", screen.Bad, p.faults(st.Faults))
	if len(st.Problems)+len(st.Down)+len(st.Faults) > 0 {
		p.WriteString("\n")
	}
	p.lines(p.connections(), p.connSync(), p.health(), p.announced(), p.lastSync(), p.lastChange(), p.unused(),
		p.others())
	p.list("draining", screen.Warn, drainLines(st, maxDrainLines))
	title := "announcements"
	if len(st.Announced) > 0 && st.Announced[0].Moved {
		title = "VIPs of keepalived"
	}
	p.list(title, screen.Warn, p.heldBack())
	p.list("ordered by the operator", screen.Warn, p.overrides())
	p.list("warnings", screen.Warn, st.Warnings[st.Totals.Barred:])
	p.list("waits for a restart", screen.Warn, st.Daemon.Config.Restart)
	if len(st.Services) == 0 {
		return
	}
	p.WriteString("\n")
	if p.Format == Wide {
		p.wide()
	} else {
		p.table()
	}
}

// problems lists the problems, with what a firewall does beneath.
func (p *page) problems() (lines []string) {
	for _, text := range p.st.Problems {
		if lines = append(lines, text); text != Barred {
			continue
		}
		for _, w := range p.st.Warnings[:p.st.Totals.Barred] {
			lines = append(lines, "  "+w)
		}
	}
	return lines
}

// lines writes lines, but for those that are empty.
func (p *page) lines(texts ...string) {
	for _, text := range texts {
		if text != "" {
			p.line(screen.Plain, "%s", text)
		}
	}
}

// unused says where services are written if there are none, and nothing is wrong.
func (p *page) unused() string {
	if len(p.st.Services)+len(p.st.Problems) > 0 || len(p.st.Daemon.Files) == 0 {
		return ""
	}
	return "no services: write them to " + strings.Join(p.st.Daemon.Files, " or ") + ", see svcproxy-start(7)"
}

// others names the services that sources leave to other proxies.
func (p *page) others() string {
	var all []string
	for _, s := range p.st.Sources {
		if o := s.Others; o != nil {
			more := ""
			if o.Count > maxOthersNamed {
				more = fmt.Sprintf(" and %d more", o.Count-maxOthersNamed)
			}
			all = append(all, fmt.Sprintf("left to other proxies: %s%s: %s",
				strings.Join(o.First[:min(len(o.First), maxOthersNamed)], ", "), more, o.Why))
		}
	}
	return strings.Join(all, "\n")
}

// maxOthersNamed is how many services of other proxies the page names.
const maxOthersNamed = 3

func (p *page) daemon() string {
	d := p.st.Daemon
	text := fmt.Sprintf("svcproxy %s on %s, up %s, mode %s", d.Version, d.Node, p.ago(d.Started), d.Mode)
	if d.Rules != "" && d.Rules != d.Mode {
		text += " with rules of " + d.Rules
	}
	if d.ModeReason != "" {
		text += " (" + d.ModeReason + ")"
	}
	return text
}

func (p *page) counts() string {
	t := p.st.Totals
	virtual, real := "virtual server", "real server"
	if p.st.Uncounted { // there are only rules
		virtual, real = "served address", "backend"
	}
	text := fmt.Sprintf("%s, %s, %s", sources.Count(t.Services, "service"), sources.Count(t.Virtuals, virtual),
		sources.Count(t.Reals, real))
	for _, n := range []struct {
		of   int
		what string
	}{{t.Draining, "draining"}, {t.Missing, "missing in the kernel"}, {t.Empty, "without backends"},
		{t.LeftOut, "left out"}} {
		if n.of > 0 {
			text += fmt.Sprintf(", %d %s", n.of, n.what)
		}
	}
	return text
}

func (p *page) connections() string {
	text := fmt.Sprintf("connections: %s active, %s inactive", p.st.Count(p.st.Totals.Active),
		p.st.Count(p.st.Totals.Inactive))
	switch {
	case p.st.NewOnly:
		text = fmt.Sprintf("connections: %s new so far; mode %s does not count active ones",
			p.st.began(p.st.Totals.Traffic), p.st.Daemon.Mode)
	case p.st.Uncounted:
		text = "connections: not counted in mode " + p.st.Daemon.Mode
	}
	if c := p.st.Conntrack; c != nil {
		text += fmt.Sprintf("; conntrack: %s of %s", screen.Count(c.Count), screen.Count(c.Max))
	}
	return text
}

func (p *page) lastSync() string {
	s := p.st.Sync
	if s.Cause == "" {
		return "no sync yet"
	}
	text := fmt.Sprintf("last sync: %s ago (%s, %s)", p.ago(s.Start), s.Cause, length(s.Seconds))
	if s.Error != "" {
		text += fmt.Sprintf(", failed, %s in a row", sources.Count(s.Failures, "time"))
	}
	return text
}

func (p *page) lastChange() string {
	c := p.st.Sync.Change
	if c == nil {
		return ""
	}
	text := fmt.Sprintf("last change: %s ago (%s, +%d ~%d -%d, in %s)", p.ago(c.Acknowledged), c.Cause, c.Add, c.Change,
		c.Remove, length(c.TotalSeconds))
	if d := p.st.Sync.Drift; d != nil {
		text += fmt.Sprintf(", last drift: %s ago", p.ago(d.Acknowledged))
	}
	return text
}

// ago is the time between something and this status.
func (p *page) ago(t time.Time) string { return screen.Age(p.st.Time.Sub(t)) }

// length formats the duration of a sync.
func length(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

// list adds lines below a heading, or nothing if there are none. It wraps lines
// instead of cutting them, since they say what is wrong.
func (p *page) list(heading string, style screen.Style, lines []string) {
	if len(lines) == 0 {
		return
	}
	p.WriteString("\n" + screen.Paint(heading+":", style, p.Colours) + "\n")
	for _, l := range lines {
		for _, part := range screen.Wrap("  "+screen.Clean(l), p.Width, 4) {
			p.WriteString(part + "\n")
		}
	}
}

// faults formats the ops that the kernel refuses, one line each.
func (p *page) faults(faults []Fault) []string {
	var lines []string
	for i := 0; i < len(faults); {
		f, of := faults[i], ""
		if f.Service != "" && p.Service == "" {
			of = f.Service + ": "
		}
		// If a program such as iptables fails, all its ops fail with the same error.
		n := 1
		for i+n < len(faults) && faults[i+n].Error == f.Error && faults[i+n].Service == f.Service {
			n++
		}
		op := f.Op
		if n > 1 {
			op += fmt.Sprintf(" and %d more", n-1)
		}
		lines = append(lines, fmt.Sprintf("%s%s: %s (%s, since %s ago)", of, op, f.Error, sources.Count(f.Count, "time"),
			p.ago(f.Since)))
		i += n
	}
	if more := p.st.Totals.Faults - len(faults); more > 0 && p.Service == "" && len(faults) > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return lines
}

// maxDrainLines bounds the drains in the overview.
const maxDrainLines = 10

// drainLines are a status's drains in words, at most this many lines.
func drainLines(st *Status, most int) []string {
	var lines []string
	for i, d := range st.Drains {
		if i == most-1 && len(st.Drains) > most {
			return append(lines, fmt.Sprintf("and %d more", len(st.Drains)-i))
		}
		lines = append(lines, fmt.Sprintf("%s %s %s", d.Service, d.place(), d.left(st.Time)))
	}
	return lines
}

// table writes a row for each service.
func (p *page) table() {
	c := &screen.Columns{Elastic: []int{5, 0}}
	heading := []string{"SERVICE", "TYPE", "ADDRESS", ">BACKENDS", ">ACTIVE", "STATE"}
	if p.st.Health != nil {
		c.Elastic, heading = []int{6, 5, 0}, slices.Insert(heading, 5, "HEALTH")
	}
	c.Heading(heading...)
	for _, s := range p.rows() {
		row := []screen.Cell{text(s.Name), text(s.Type), text(s.address()), number(s.Backends.String()),
			number(p.st.Count(s.Active)), s.Cell()}
		if p.st.Health != nil {
			row = slices.Insert(row, 5, s.Health.Cell())
		}
		c.Row(row...)
	}
	p.columns(c)
}

// wide writes a wide row for each service.
func (p *page) wide() {
	c := &screen.Columns{Elastic: []int{9, 10, 0}}
	heading := []string{"SERVICE", "TYPE", "ADDRESS", ">BACKENDS", ">ACTIVE", ">INACTIVE", ">TOTAL", ">IN", ">OUT",
		"STATE", "ORIGIN"}
	if p.st.Health != nil {
		c.Elastic, heading = []int{10, 9, 11, 0}, slices.Insert(heading, 9, "HEALTH")
	}
	c.Heading(heading...)
	for _, s := range p.rows() {
		row := []screen.Cell{text(s.Name), text(s.Type), text(s.address()), number(s.Backends.String()),
			number(p.st.Count(s.Active)),
			number(p.st.Count(s.Inactive)), number(p.st.began(s.Traffic)),
			number(p.st.bytes(s.Traffic.InBytes)), number(p.st.bytes(s.Traffic.OutBytes)), s.Cell(), text(s.Origin)}
		if p.st.Health != nil {
			row = slices.Insert(row, 9, s.Health.Cell())
		}
		c.Row(row...)
	}
	p.columns(c)
}

// rows returns the services, those in trouble first: with thousands of services a
// reader does not get to the end.
func (p *page) rows() []*Service {
	rows := make([]*Service, len(p.st.Services))
	for i := range rows {
		rows[i] = &p.st.Services[i]
	}
	urgency := map[screen.Style]int{screen.Bad: 0, screen.Warn: 1}
	rank := func(s *Service) int {
		if n, urgent := urgency[s.style()]; urgent {
			return n
		}
		return len(urgency)
	}
	sources.SortStableFunc(rows, func(a, b *Service) int { return cmp.Compare(rank(a), rank(b)) })
	return rows
}

func text(s string) screen.Cell   { return screen.Cell{Text: s} }
func number(s string) screen.Cell { return screen.Cell{Text: s, Right: true} }

// address is the address that clients most likely use, and the number of others.
func (s *Service) address() string {
	if len(s.Virtuals) == 0 {
		return "-"
	}
	best := &s.Virtuals[0]
	for i := range s.Virtuals {
		if v := &s.Virtuals[i]; v.Kind.use() < best.Kind.use() {
			best = v
		}
	}
	text := best.full()
	if n := len(s.Virtuals) - 1; n > 0 {
		text += fmt.Sprintf(" +%d", n)
	}
	return text
}

// way is how the virtual server chooses a real server, and how it forwards unless it masquerades.
func (v *Virtual) way() string {
	if v.Forward == "" {
		return v.Scheduler
	}
	return v.Scheduler + ", " + v.Forward
}

// full is the address, with its protocol if that is not TCP.
func (v *Virtual) full() string {
	if v.Protocol == "tcp" {
		return v.Address.String()
	}
	return v.long()
}

// long is the address with its protocol, or the firewall mark.
func (v *Virtual) long() string {
	switch {
	case v.Mark == 0:
		return v.Address.String() + "/" + v.Protocol
	case v.Address.Addr().Is6():
		return fmt.Sprintf("fwmark %d (IPv6)", v.Mark)
	}
	return fmt.Sprintf("fwmark %d", v.Mark)
}

// Cell is the state of a service in few words, with the number of drains.
func (s *Service) Cell() screen.Cell {
	words := string(s.State)
	if s.Reason != "" && s.State != NotServed {
		words += ": " + s.Reason
	}
	if s.Backends.Draining > 0 {
		words += fmt.Sprintf(", %d draining", s.Backends.Draining)
	}
	if s.Backends.Full > 0 {
		words += fmt.Sprintf(", %d full", s.Backends.Full)
	}
	return screen.Cell{Text: words, Style: s.style()}
}

// style is how the state of a service looks. Drains, and endpoints that are full or down, make a good one a warning.
func (s *Service) style() screen.Style {
	switch {
	case s.State == Partly && len(s.Withheld) > 0:
		return screen.Bad
	case s.State.Style() != screen.Bad && (s.Backends.Draining > 0 || s.Backends.Full > 0 || s.Health.Trouble()):
		return screen.Warn
	}
	return s.State.Style()
}

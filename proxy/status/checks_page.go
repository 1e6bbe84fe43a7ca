package status

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/screen"
)

// Checks returns the status now with the named services alone, or all of them without names. It has no
// endpoint that the table alone decides on. The others have the times of their next probes.
func (r *Reader) Checks(ctx context.Context, names []string) Status {
	st := r.Status(ctx)
	wanted := st.allNamed(names)
	services := []Service{}
	for _, s := range st.Services {
		if s.Health == nil && len(names) == 0 || len(names) > 0 && !wanted[s.Name] {
			continue
		}
		s.Endpoints = slices.DeleteFunc(slices.Clone(s.Endpoints), func(e Endpoint) bool { return e.Health == nil })
		for i := range s.Endpoints {
			s.Endpoints[i].Health.Next = r.next(s.Endpoints[i].Health.target)
		}
		services = append(services, s)
	}
	st.Services = services
	return st
}

// next is when a target is probed next; zero if that is not known.
func (r *Reader) next(k health.Key) time.Time {
	if r.Due == nil || k == (health.Key{}) {
		return time.Time{}
	}
	due, ok := r.Due(k)
	if !ok {
		return time.Time{}
	}
	return due.UTC()
}

// PrintChecks writes the health of a status that Reader.Checks made.
func PrintChecks(w io.Writer, st Status, v View) error {
	if v.Format == JSON {
		return st.writeJSON(w)
	}
	p := &page{st: &st, View: v}
	p.checks()
	_, err := io.WriteString(w, p.String())
	return err
}

// Lacks returns an error if the status has no service of one of the names.
func (st *Status) Lacks(names []string) error {
	for _, name := range names {
		if len(st.named(name)) == 0 {
			return &NoServiceError{name}
		}
	}
	return nil
}

// checks writes what is unusual, and a row for each endpoint.
func (p *page) checks() {
	if text := p.health(); text != "" {
		p.line(screen.Plain, "%s", text)
	}
	if h := p.st.Health; h != nil && h.Blind != "" {
		p.line(screen.Bad, "blind: %s; the last states count", h.Blind)
	}
	if h := p.st.Health; h != nil && !h.Held.IsZero() {
		p.line(screen.Bad, "mass failure: the last states count for %s more", screen.Age(h.Held.Sub(p.st.Time)))
	}
	c := &screen.Columns{Elastic: []int{6, 4, 3, 0}}
	c.Heading("SERVICE", "PORT", "ENDPOINT", "STATE", "LAST RESULT", "NEXT", "CHECK")
	rows := 0
	for i := range p.st.Services {
		s := &p.st.Services[i]
		p.modes(s)
		for j := range s.Endpoints {
			p.check(c, s, &s.Endpoints[j])
			rows++
		}
	}
	if rows == 0 {
		p.line(screen.Plain, "no endpoint has a health check or an order")
		return
	}
	p.columns(c)
}

// modes writes in which groups of a service others serve than those that are up.
func (p *page) modes(s *Service) {
	if s.Health == nil {
		return
	}
	for i := range s.Health.Groups {
		g := &s.Health.Groups[i]
		p.line(g.Mode.Style(), "%s: %s", s.Name, g.long())
	}
}

// check writes the row of an endpoint.
func (p *page) check(c *screen.Columns, s *Service, e *Endpoint) {
	h := e.Health
	last, next := "-", "-"
	if r := h.Last; r != nil {
		last = cmp.Or(r.Answer, "ok")
		if said := cmp.Or(r.Warning, r.Answer); r.Good && said != "" {
			last = "ok: " + said
		}
		last = fmt.Sprintf("%s in %s, %s ago", last, length(r.Seconds), p.ago(r.Time))
	}
	shown := text(last)
	if h.Blind != "" {
		shown = screen.Cell{Text: "blind: " + h.Blind + "; last result: " + last, Style: screen.Bad}
	}
	if !h.Next.IsZero() {
		next = "in " + screen.Age(h.Next.Sub(p.st.Time))
	}
	what := strings.TrimSuffix(cmp.Or(h.Check, "-"), " "+e.Address.String())
	c.Row(text(s.Name), text(cmp.Or(e.Port, "-")), text(e.place()), h.Cell(), shown, text(next), text(what))
}

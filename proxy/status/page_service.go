package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/proxy/screen"
)

// service writes all of one service.
func (p *page) service(s *Service) {
	if p.Len() > 0 {
		p.WriteString("\n")
	}
	state := s.Cell()
	p.line(state.Style, "%s: %s", s.Name, state.Text)
	p.line(screen.Plain, "%s", strings.Join(s.traits(), ", "))
	if s.Refused != nil {
		p.line(screen.Plain, "first packets refused: %s", refusals(s.Refused))
	}
	if len(s.Virtuals) > 0 {
		p.WriteString("\n")
		p.virtuals(s)
	}
	if len(s.Endpoints) > 0 {
		p.WriteString("\n")
		p.endpoints(s)
	}
	p.groups(s)
	p.announcedFor(s)
	p.list("not served", screen.Bad, s.Withheld)
	p.list("refused by the kernel", screen.Bad, p.faults(s.Faults))
}

// groups writes the groups in which others serve than the endpoints that are up.
func (p *page) groups(s *Service) {
	if s.Health == nil {
		return
	}
	for i := range s.Health.Groups {
		g := &s.Health.Groups[i]
		p.list("health", g.Mode.Style(), []string{g.long()})
	}
}

// traits describes a service in words.
func (s *Service) traits() []string {
	var words []string
	if s.Type != "" {
		words = append(words, s.Type)
	}
	words = append(words, "from "+s.Origin)
	if s.Affinity != "" {
		words = append(words, "affinity "+s.Affinity)
	}
	if s.ExternalPolicy == "Local" {
		words = append(words, "external policy Local")
	}
	if s.InternalPolicy == "Local" {
		words = append(words, "internal policy Local")
	}
	if len(s.SourceRanges) > 0 {
		words = append(words, "load balancer for "+strings.Join(s.SourceRanges, " ")+" only")
	}
	if len(s.Allow) > 0 {
		words = append(words, "for "+some(s.Allow)+" only")
	}
	if len(s.Deny) > 0 {
		words = append(words, "not for "+some(s.Deny))
	}
	if s.Limits != "" {
		words = append(words, "limits: "+s.Limits)
	}
	return words
}

// some joins the first few words of a list.
func some(all []string) string {
	const few = 5
	if len(all) > few {
		all = append(slices.Clone(all[:few]), fmt.Sprintf("and %d more", len(all)-few))
	}
	return strings.Join(all, " ")
}

// virtuals writes a row for each virtual server.
func (p *page) virtuals(s *Service) {
	c := &screen.Columns{Elastic: []int{9, 0}}
	c.Heading("ADDRESS", "PORT", "KIND", "SCHEDULER", ">BACKENDS", ">TOTAL", ">IN", ">OUT", "STATE")
	for i := range s.Virtuals {
		v := &s.Virtuals[i]
		state := screen.Cell{Text: string(v.State()), Style: v.State().Style()}
		switch {
		case v.Conflict != "":
			state.Text = "another program's: " + v.Conflict
		case v.State() == Serving && v.Link != "":
			state.Text += ", on " + v.Link
		}
		c.Row(text(v.full()), text(cmp.Or(v.Port, "-")), text(string(v.Kind)), text(v.way()), number(fmt.Sprint(v.Backends)),
			number(p.st.began(v.Traffic)), number(p.st.bytes(v.Traffic.InBytes)),
			number(p.st.bytes(v.Traffic.OutBytes)), state)
	}
	p.columns(c)
}

// endpoints writes a row for each endpoint.
func (p *page) endpoints(s *Service) {
	c := &screen.Columns{Elastic: []int{9, 2, 0}}
	heading := []string{"ENDPOINT", "PORT", "NODE", ">WEIGHT", ">ACTIVE", ">INACTIVE", ">TOTAL", ">IN", ">OUT", "STATE"}
	if s.Health != nil {
		c.Elastic, heading = []int{10, 2, 0, 9}, append(heading, "HEALTH")
	}
	c.Heading(heading...)
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		total, in, out := "-", "-", "-"
		if t := e.Traffic; t != nil {
			total, in, out = p.st.began(*t), p.st.bytes(t.InBytes), p.st.bytes(t.OutBytes)
		}
		row := []screen.Cell{text(e.place()), text(cmp.Or(e.Port, "-")), text(cmp.Or(e.Node, "-")),
			number(e.weight()),
			number(p.st.Count(e.Active)), number(p.st.Count(e.Inactive)), number(total), number(in), number(out),
			e.Cell(p.st.Time)}
		if s.Health != nil {
			row = append(row, e.Health.Cell())
		}
		c.Row(row...)
	}
	p.columns(c)
}

// weight is the weight that is served, with the one that the source gives if that differs: "0 (source 3)".
func (e *Endpoint) weight() string {
	if h := e.Health; h != nil && h.SourceWeight != e.Weight {
		return fmt.Sprintf("%d (source %d)", e.Weight, h.SourceWeight)
	}
	return fmt.Sprint(e.Weight)
}

// Cell is the state of an endpoint in few words: "draining (12 conns, 43s
// left)".
func (e *Endpoint) Cell(now time.Time) screen.Cell {
	cell := screen.Cell{Text: e.stateText(), Style: e.State.Style()}
	if e.Full {
		cell.Style = screen.Warn
	}
	if e.State == EndpointDraining && e.Drain != nil {
		cell.Text = "draining " + e.left(now)
	}
	return cell
}

// left says how long a drain may last: "(12 conns, 43s left)".
func (e *Endpoint) left(now time.Time) string {
	conns := "-"
	if e.Active != Unknown {
		conns = screen.Count(uint64(e.Active + e.Inactive))
	}
	if e.Drain.Deadline.IsZero() {
		return fmt.Sprintf("(%s conns, for %s)", conns, screen.Age(now.Sub(e.Drain.Since)))
	}
	return fmt.Sprintf("(%s conns, %s left)", conns, screen.Age(e.Drain.Deadline.Sub(now)))
}

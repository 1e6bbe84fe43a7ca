package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/sources"
)

// checks is what a builder knows of health checks and orders. A nil one knows of none.
type checks struct {
	in      Input
	view    *health.View
	explain health.Explainer
	groups  map[string][]health.Group // those whose mode is not Normal, by service

	expiring []string // certificates, in words
	odd      []string // warnings of probes, with their targets
	seen     map[health.Key]bool
}

// newChecks returns nil if nothing but the table decides on endpoints.
func newChecks(in Input) *checks {
	v := in.Health
	if v == nil || len(v.Known.Verdicts.Of) == 0 && len(v.Known.Overrides) == 0 &&
		!v.Table.Services.ContainsFunc(hasBackup) {
		return nil
	}
	c := &checks{in: in, view: v, explain: health.NewExplainer(v.Known, v.Now), groups: map[string][]health.Group{},
		seen: map[health.Key]bool{}}
	for _, u := range v.Unusual {
		name := v.Table.Services.At(u.Service).DisplayName()
		c.groups[name] = append(c.groups[name], u.Group)
	}
	return c
}

func hasBackup(s *sources.Service) bool {
	return slices.ContainsFunc(s.Endpoints, func(e sources.Endpoint) bool { return e.Backup })
}

// service adds to a service why its endpoints have their weights.
func (c *checks) service(s *Service, from *sources.Service) {
	if c == nil || !from.Type.Serves() {
		return
	}
	before, found := c.view.Table.Lookup(from.Namespace, from.Name)
	checked := before.HealthCheck != nil || hasBackup(&before)
	if !found || !checked && len(c.view.Known.Overrides) == 0 {
		return
	}
	list := c.explain.Explain(&before)
	if !checked && !slices.ContainsFunc(list, ordered) {
		return
	}
	s.Health = &ServiceHealth{Groups: []HealthGroup{}}
	for _, g := range c.groups[s.Name] {
		s.Health.Groups = append(s.Health.Groups, HealthGroup{g.Port, g.Number, kernel.Proto(g.Protocol).String(),
			familyOf(g.IPv6).String(), HealthMode(g.Mode.String()), g.Up, g.Of})
	}
	for i := range list {
		c.endpoint(s, from, &list[i])
	}
}

func ordered(x health.Explained) bool { return x.Out != nil || x.Reweighed != nil }

func familyOf(ipv6 bool) kernel.Family {
	if ipv6 {
		return kernel.IPv6
	}
	return kernel.IPv4
}

// endpoint adds its health to an endpoint.
func (c *checks) endpoint(s *Service, from *sources.Service, x *health.Explained) {
	port := slices.IndexFunc(from.Ports, func(p sources.Port) bool { return p.Name == x.Port && p.Protocol == x.Protocol })
	if port < 0 {
		return
	}
	at, found := s.find(port, x.Addr)
	if !found || s.Endpoints[at].Health != nil {
		return // the table is newer than the last sync, or it has the endpoint twice
	}
	s.Endpoints[at].Health = c.health(x)
	s.Health.count(x)
	c.certificate(x)
	c.seen[x.Target] = true
}

// count adds an endpoint.
func (h *ServiceHealth) count(x *health.Explained) {
	if x.Out != nil {
		h.Out++
	}
	if x.Target == (health.Key{}) {
		return
	}
	h.Checked++
	switch v := &x.Verdict; {
	case x.Silent:
		h.Down++
	case v.Held:
		h.Held++
	case v.Phase.IsUp():
		h.Up++
	case v.Phase.IsDown():
		h.Down++
	}
}

// health describes the health of an endpoint.
func (c *checks) health(x *health.Explained) *EndpointHealth {
	in, v := c.in, &x.Verdict
	h := &EndpointHealth{State: Unchecked, Cause: HealthCause(x.Cause.String()), Text: x.Text(c.view.Now),
		SourceWeight: x.Source, Override: in.override(x.Out)}
	if h.Override == nil {
		h.Override = in.override(x.Reweighed)
	}
	if x.Target == (health.Key{}) {
		return h
	}
	h.target = x.Target
	h.State, h.Check, h.Since, h.Reason = HealthState(v.Phase.String()), x.Target.String(), in.at(v.Changed), v.Reason
	if x.Silent {
		h.State, h.Reason = HealthState(health.Down.String()), "it does not answer its clients"
	}
	h.Run, h.Held, h.Flapping, h.Void = v.Run, v.Held, v.Flapping(), v.Voids
	if v.Dark(c.view.Now) {
		h.Blind = strings.TrimPrefix(v.Voided, "void: ")
	}
	if last := v.Last; !last.At.IsZero() {
		h.Last = &ProbeResult{last.Good, last.Reason, last.Warning, in.at(last.At), seconds(last.Took)}
	}
	if expires := v.Last.Expires; !expires.IsZero() {
		days := daysTo(expires, in.Now)
		h.Expires, h.Days = expires.UTC(), &days
	}
	return h
}

// daysTo is negative if the time is over.
func daysTo(t, now time.Time) int {
	d := t.Sub(now)
	if d < 0 {
		return -int((-d + 24*time.Hour - 1) / (24 * time.Hour))
	}
	return int(d / (24 * time.Hour))
}

// A certificate gets a warning in its last warnDays. As many warnings name one.
const (
	warnDays        = 14
	maxCertificates = 5
)

// certificate notes a certificate that expires soon, and one that is odd, once for each target.
func (c *checks) certificate(x *health.Explained) {
	if w := x.Verdict.Last.Warning; w != "" && !c.seen[x.Target] {
		c.odd = append(c.odd, fmt.Sprintf("the probe of %s: %s", x.Target, w))
	}
	expires := x.Verdict.Last.Expires
	if expires.IsZero() || c.seen[x.Target] || expires.Sub(c.in.Now) >= warnDays*24*time.Hour {
		return
	}
	when := "expires in " + sources.Count(daysTo(expires, c.in.Now), "day")
	if expires.Before(c.in.Now) {
		when = "has expired"
	}
	c.expiring = append(c.expiring, fmt.Sprintf("the certificate of %s %s (%s)", x.Target, when,
		expires.UTC().Format(time.RFC3339)))
}

// warnings are about certificates, and about orders for endpoints that are in no table.
func (c *checks) warnings() []string {
	if c == nil {
		return nil
	}
	list := c.expiring
	if more := len(list) - maxCertificates; more > 0 {
		list = append(list[:maxCertificates:maxCertificates],
			fmt.Sprintf("the certificates of %s more expire within %d days", sources.Count(more, "target"), warnDays))
	}
	list = append(list, c.odd[:min(len(c.odd), maxCertificates)]...)
	if more := len(c.odd) - maxCertificates; more > 0 {
		list = append(list, fmt.Sprintf("the probes of %s more warn, too: svcproxy health", sources.Count(more, "target")))
	}
	for _, o := range c.view.Known.Overrides {
		if !o.Unmatched.IsZero() {
			list = append(list, fmt.Sprintf("override %s: no table has had an endpoint for it since %s; it is dropped after "+
				"24 hours", c.line(&o), c.in.at(o.Unmatched).Format(time.RFC3339)))
		}
	}
	return list
}

// line names an order: `10.2.1.10 drained by root: "kernel upgrade"`.
func (c *checks) line(o *health.Override) string { return o.In(c.view.Table) + " " + o.String() }

// all describes the health checks of the node; nil if there are none and no orders.
func (c *checks) all(services []Service) *Health {
	if c == nil {
		return nil
	}
	v := c.view
	h := &Health{
		Targets: len(v.Known.Verdicts.Of), States: map[HealthState]int{}, Blind: v.Blind, Held: c.in.at(v.Holding),
		Overrides:   []Override{},
		ExecWaiting: v.Probes.Overdue, ExecWaitingSince: c.in.at(v.Probes.OverdueSince),
		Probes: Probes{
			Started: v.Probes.Started, Void: v.Probes.Void, InFlight: v.Probes.InFlight,
			LateSeconds: seconds(v.Probes.Late99), LateMaxSeconds: seconds(v.Probes.LateMax),
		},
	}
	for _, p := range health.Phases() {
		h.States[HealthState(p.String())] = 0
	}
	for _, verdict := range v.Known.Verdicts.Of {
		h.States[HealthState(verdict.Phase.String())]++
	}
	for i := range services {
		if services[i].Health.Panics() {
			h.Panic++
		}
	}
	for i := range v.Known.Overrides {
		h.Overrides = append(h.Overrides, *c.in.override(&v.Known.Overrides[i]))
	}
	return h
}

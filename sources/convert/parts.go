package convert

import (
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/redact"
)

// part is a part of a health check that can be left out. The rest stays.
type part struct {
	name   string
	clear  func(c *sources.HealthCheck)
	secret func(p *sources.Probe) bool // whether it holds a secret; nil: never
	basis  bool                        // what a good answer is depends on it
}

// probePart is a part that is a text of the probe.
func probePart(name string, at func(p *sources.Probe) *string, secret func(text string) bool, basis bool) part {
	x := part{name: name, basis: basis, clear: func(c *sources.HealthCheck) { *at(&c.Probe) = "" }}
	if secret != nil {
		x.secret = func(p *sources.Probe) bool { return secret(*at(p)) }
	}
	return x
}

// timing is a part whose default is the node's.
func timing(name string, key sources.HealthKeys) part {
	return part{name: name, clear: func(c *sources.HealthCheck) {
		own := *c
		own.Unset |= key
		*c = own.OnNode(sources.DefaultHealthCheck())
	}}
}

// parts lists what a services file may refuse of a health check, and what may be secret.
var parts = []part{
	timing("interval", sources.HealthInterval), timing("timeout", sources.HealthTimeout),
	timing("fastInterval", sources.HealthFastInterval), timing("downInterval", sources.HealthDownInterval),
	timing("fall", sources.HealthFall), timing("rise", sources.HealthRise), timing("slowStart", sources.HealthSlowStart),
	probePart("method", func(p *sources.Probe) *string { return &p.Method }, nil, false),
	probePart("host", func(p *sources.Probe) *string { return &p.Host }, redact.LooksSecret, false),
	probePart("path", func(p *sources.Probe) *string { return &p.Path }, redact.Target, true),
	probePart("headers", func(p *sources.Probe) *string { return &p.Headers }, nil, false),
	probePart("expectStatus", func(p *sources.Probe) *string { return &p.ExpectStatus }, nil, false),
	probePart("expectBody", func(p *sources.Probe) *string { return &p.ExpectBody }, redact.LooksSecret, false),
	probePart("send", func(p *sources.Probe) *string { return &p.Send }, redact.Bytes, true),
	probePart("expect", func(p *sources.Probe) *string { return &p.Expect }, redact.LooksSecret, false),
	probePart("query", func(p *sources.Probe) *string { return &p.Query }, nil, true),
	probePart("recordType", func(p *sources.Probe) *string { return &p.RecordType }, nil, false),
	probePart("serverName", func(p *sources.Probe) *string { return &p.ServerName }, nil, false),
	probePart("interface", func(p *sources.Probe) *string { return &p.Interface }, nil, false),
	{name: "source", clear: func(c *sources.HealthCheck) { c.Probe.Source = sources.Probe{}.Source }},
	probePart("args", func(p *sources.Probe) *string { return &p.Args }, secretArgs, true),
}

// secretArgs reports whether the arguments of a program may have a secret. The words for an endpoint are none.
func secretArgs(args string) bool {
	text := strings.NewReplacer(endpointAddress, "192.0.2.1", endpointPort, "80").Replace(args)
	return redact.Args(strings.Split(text, "\x00"))
}

// partsOf returns the parts of a check, with each of its headers.
func partsOf(c *sources.HealthCheck) (list []part) {
	for _, x := range parts {
		without := *c
		if x.clear(&without); without == *c {
			continue
		}
		if x.name != "headers" {
			list = append(list, x)
			continue
		}
		for line := range strings.SplitSeq(c.Probe.Headers, "\n") {
			list = append(list, header(line))
		}
	}
	return list
}

// header is the part of one header.
func header(line string) part {
	name, value, _ := strings.Cut(line, ": ")
	secret := redact.Header(name, value)
	title := "a header"
	if keyword().MatchString(name) {
		title = "header " + name
	}
	return part{
		name: title, basis: secret,
		clear: func(c *sources.HealthCheck) {
			left := slices.DeleteFunc(strings.Split(c.Probe.Headers, "\n"), func(l string) bool { return l == line })
			c.Probe.Headers = strings.Join(left, "\n")
		},
		secret: func(*sources.Probe) bool { return secret },
	}
}

// leaveOut leaves out a part of a check, and returns what the check then does: where its basis is gone, any answer is good,
// so that endpoints which serve stay up.
func (x *part) leaveOut(c *sources.HealthCheck) string {
	x.clear(c)
	p := &c.Probe
	switch {
	case !x.basis:
		return "the check does without"
	case p.Type == sources.CheckHTTP || p.Type == sources.CheckHTTPS:
		p.ExpectStatus, p.ExpectBody, p.Method = "100-599", "", "GET"
		return "any answer of the server is good"
	case p.Type == sources.CheckExec:
		*p = sources.Probe{Type: sources.CheckTCP, Timeout: p.Timeout}
		return "the check only connects"
	default:
		p.Expect = ""
		return "any answer of the server is good"
	}
}

// secrets are the checks without their secrets, by the checks as configured.
type secrets map[sources.HealthCheck]concealed

type concealed struct {
	check *sources.HealthCheck
	notes []string
}

// conceal leaves the secrets out of the check of a backend.
func (v *virtual) conceal(r *real, known secrets) {
	if r.check == nil {
		return
	}
	done, again := known[*r.check]
	if !again {
		own := *r.check
		done.check = &own
		for _, x := range partsOf(r.check) {
			if x.secret == nil || !x.secret(&own.Probe) {
				continue
			}
			done.notes = append(done.notes, x.name+" of the health check has a secret, or what may be one: import does not copy it. "+
				"Put it in yourself, in a file that others cannot read; until then "+x.leaveOut(&own))
		}
		known[*r.check] = done
	}
	for _, n := range done.notes {
		v.noteChange(r.checkAt, "%s", n)
	}
	r.check = done.check
}

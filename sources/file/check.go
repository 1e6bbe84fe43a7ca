package file

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// draftCheck is a health check while its table is read.
type draftCheck struct {
	sources.HealthCheck
	d  *decoder
	at node // as given
}

// namedChecks are the tables [healthChecks.NAME] of one file. Other files do not see them, so that a file means the
// same wherever it is. A check with a problem is nil.
type namedChecks map[string]*sources.HealthCheck

// healthChecks reads the table of all named checks.
func (d *decoder) healthChecks(n node) error {
	if !n.IsTable() {
		return n.Mistyped("a table, [healthChecks.NAME] for each health check")
	}
	d.named = namedChecks{}
	for _, value := range sortedByLine(n) {
		key := strings.Clone(value.Key) // the text of the file must not stay in memory
		if d.full() {
			break
		}
		if text, ok := value.Text(); ok && (strings.HasPrefix(text, "@") || text == checkOff) {
			d.refuse(value, "healthChecks.%s %q: must be a health check itself", key, text)
			continue
		}
		d.named[key] = nil
		if c, err := d.check(value); err != nil {
			d.refuse(value, "healthChecks.%s %v", key, err)
		} else {
			d.named[key] = c
		}
	}
	return nil
}

const checkOff = "off"

// readCheck reads the healthCheck of a service.
func readCheck(s *draft, n node) (err error) {
	text, _ := n.Text()
	if name, isName := strings.CutPrefix(text, "@"); isName {
		s.namedCheck = strings.Clone(name)
		s.HealthCheck, err = s.d.namedCheck(name)
	} else if text != checkOff {
		s.HealthCheck, err = s.d.check(n)
	}
	return err
}

func (d *decoder) namedCheck(name string) (*sources.HealthCheck, error) {
	c, ok := d.named[name]
	if ok {
		return c, nil
	}
	var names []string
	for known := range d.named {
		names = append(names, known)
	}
	slices.Sort(names)
	if meant := fields.Near(name, names); meant != "" {
		return nil, fmt.Errorf("%q: this file has no [healthChecks.%s], did you mean %q?", "@"+name, name, "@"+meant)
	}
	return nil, fmt.Errorf("%q: this file has no [healthChecks.%s]; a named check counts in its own file only", "@"+name,
		name)
}

// check reads a health check: a table, or a string such as "http:/healthz". It returns nil if it has refused a key.
func (d *decoder) check(n node) (*sources.HealthCheck, error) {
	c := &d.draftCheck
	*c = draftCheck{HealthCheck: sources.DefaultHealthCheck(), d: d, at: n}
	before := len(d.problems)
	if n.IsTable() {
		table(d, n, checkFields(), c)
		if len(d.problems) == before {
			if err := c.complete(); err != nil {
				return nil, err
			}
		}
	} else if text, ok := n.Text(); !ok {
		return nil, n.Mistyped(`a string such as "tcp" or "http:/healthz", or a table`)
	} else if err := c.short(text); err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	if len(d.problems) > before {
		return nil, nil
	}
	c.fill()
	return d.share(&c.HealthCheck), nil
}

// shortKeys are the keys that the string after the type sets, as in "http:/healthz".
var shortKeys = map[sources.CheckType]string{
	sources.CheckHTTP: "path", sources.CheckHTTPS: "path", sources.CheckDNS: "query", sources.CheckExec: "command",
}

// short reads a check as a string: a type, and after a colon the value of its most important key.
func (c *draftCheck) short(text string) (err error) {
	name, value, more := strings.Cut(text, ":")
	if c.Probe.Type, err = checkType.Read(node{V: name}); err != nil {
		return err
	}
	key, takes := shortKeys[c.Probe.Type]
	switch {
	case more && !takes:
		return fmt.Errorf("type %s takes nothing after a colon: write a table, { type = %q, ... }", c.Probe.Type,
			c.Probe.Type)
	case more:
		i := slices.IndexFunc(checkFields(), func(f fields.Field[draftCheck]) bool { return f.Name == key })
		if err := checkFields()[i].Set(c, node{Key: key, V: value}); err != nil {
			return fmt.Errorf("%s %w", key, err)
		}
	}
	return c.complete()
}

// complete says what a check lacks, and which of its keys contradict each other.
func (c *draftCheck) complete() error {
	p := &c.Probe
	switch {
	case p.Type == "":
		return errors.New("has no type: write type = \"tcp\", or another one")
	case p.Type == sources.CheckExec && p.Command == "":
		return errors.New("needs a command, because its type is exec")
	case c.at.Has("send") && c.at.Has("sendHex"):
		return errors.New("has both send and sendHex: write one of them")
	case c.at.Has("expect") && c.at.Has("expectHex"):
		return errors.New("has both expect and expectHex: write one of them")
	case p.Type == sources.CheckGRPC && !p.TLS && (p.Verify || p.ServerName != "" || p.CAFile != ""):
		return errors.New("has keys about certificates, which need tls = true")
	case p.CAFile != "" && !p.Verify:
		return errors.New("has a caFile, which has no effect without verify = true")
	case p.Method == "HEAD" && p.ExpectBody != "":
		return errors.New("expects a body, and an answer to HEAD has none")
	}
	return nil
}

// fill fills in the defaults that depend on the type.
func (c *draftCheck) fill() {
	p := &c.Probe
	set := func(s *string, byDefault string) {
		if *s == "" {
			*s = byDefault
		}
	}
	switch p.Type {
	case sources.CheckHTTP, sources.CheckHTTPS:
		set(&p.Method, "GET")
		set(&p.Path, "/")
		set(&p.ExpectStatus, "200-399")
	case sources.CheckDNS:
		set(&p.Query, ".")
		set(&p.RecordType, "A")
	}
}

// share returns the check in memory that all equal checks of the file have in common. A check that the last reading
// of the file had stays where it is, so that a comparison of tables ends at the pointer.
func (d *decoder) share(c *sources.HealthCheck) *sources.HealthCheck {
	if d.checks == nil {
		d.checks = map[sources.HealthCheck]*sources.HealthCheck{}
		for i := range d.before.Services.Len() {
			if was := d.before.Services.At(i).HealthCheck; was != nil {
				d.checks[*was] = was
			}
		}
	}
	known, ok := d.checks[*c]
	if !ok {
		own := *c
		known = &own
		d.checks[own] = known
	}
	return known
}

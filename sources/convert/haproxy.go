package convert

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// readHAProxy reads haproxy.cfg: its proxies with mode tcp.
func readHAProxy(f File) (Result, error) {
	h := haproxy{sections: map[string]*section{}}
	if err := h.read(f); err != nil {
		return Result{}, err
	}
	for _, s := range h.order {
		if s.kind == "listen" || s.kind == "frontend" {
			if err := h.frontend(s); err != nil {
				return Result{}, err
			}
		}
	}
	r := services(h.virtuals)
	r.Notes = append(r.Notes, h.notes...)
	r.sortNotes()
	return r, nil
}

type haproxy struct {
	sections map[string]*section // by kind and name
	order    []*section
	virtuals []virtual
	notes    []Note
}

// section is a section of the configuration, with the defaults that came before it.
type section struct {
	at         sources.Origin
	kind, name string
	lines      []statement // of its defaults first
}

// read splits the configuration into sections.
func (h *haproxy) read(f File) error {
	var open *section
	defaults := []statement{{words: []string{"mode", "tcp"}}} // as HAProxy itself
	line := 0
	for text := range strings.Lines(string(f.Data)) {
		line++
		at := sources.Origin{Source: string(HAProxy), File: f.Name, Line: line}
		words, err := haproxyWords(text)
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		switch {
		case len(words) == 0:
		case isSection(words[0]):
			open = &section{at: at, kind: words[0]}
			if len(words) > 1 {
				open.name = words[1]
			}
			if open.kind == "defaults" {
				defaults = []statement{{words: []string{"mode", "tcp"}}}
			} else {
				open.lines = slices.Clone(defaults)
			}
			h.sections[open.kind+" "+open.name] = open
			h.order = append(h.order, open)
		case open == nil:
			return fmt.Errorf("%s: %q stands in no section", at, words[0])
		case open.kind == "defaults":
			defaults = append(defaults, statement{at: at, words: words})
		default:
			open.lines = append(open.lines, statement{at: at, words: words})
		}
	}
	return nil
}

func isSection(word string) bool {
	return slices.Contains([]string{
		"global", "defaults", "listen", "frontend", "backend", "peers", "resolvers", "userlist", "mailers", "program", "cache", "ring", "http-errors", "log-forward", "fcgi-app", "crt-list", "traces",
	}, word)
}

// haproxyWords splits a line. Quotes and backslashes are as in a shell.
func haproxyWords(text string) ([]string, error) {
	var words []string
	var b strings.Builder
	in, escaped := false, false
	quote := rune(0)
	for _, r := range strings.TrimRight(text, "\r\n") {
		switch {
		case escaped:
			b.WriteRune(unescaped(r))
			escaped = false
		case r == '\\' && quote != '\'':
			in, escaped = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			b.WriteRune(r)
		case r == '"' || r == '\'':
			in, quote = true, r
		case r == '#':
			if in {
				words = append(words, b.String())
			}
			return words, nil
		case r == ' ' || r == '\t':
			if in {
				words = append(words, b.String())
			}
			b.Reset()
			in = false
		default:
			in = true
			b.WriteRune(r)
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote is not closed")
	}
	if in {
		words = append(words, b.String())
	}
	return words, nil
}

// unescaped is what HAProxy takes a character behind a backslash for.
func unescaped(r rune) rune {
	switch r {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return r
}

// last returns the last line of a section that begins with the words, as that one counts.
func (s *section) last(words ...string) *statement {
	for i := len(s.lines) - 1; i >= 0; i-- {
		if l := &s.lines[i]; len(l.words) >= len(words) && slices.Equal(l.words[:len(words)], words) {
			return l
		}
	}
	return nil
}

// frontend makes virtual servers of each address that a section binds.
func (h *haproxy) frontend(s *section) error {
	leave := func(at sources.Origin, format string, args ...any) {
		h.notes = append(h.notes, Note{Origin: at, Message: fmt.Sprintf("%s %s: ", s.kind, s.name) + fmt.Sprintf(format, args...), Changes: true})
	}
	if mode := s.last("mode"); mode.value(1) != "tcp" {
		leave(s.at, "mode %s: svcproxy balances connections, not requests", mode.value(1))
		return nil
	}
	servers := s
	if s.kind == "frontend" {
		use := s.last("default_backend")
		if use == nil {
			leave(s.at, "it has no default_backend")
			return nil
		}
		if servers = h.sections["backend "+use.value(1)]; servers == nil {
			return fmt.Errorf("%s: there is no backend %q", use.at, use.value(1))
		}
	}
	for i := range s.lines {
		l := &s.lines[i]
		if l.words[0] != "bind" {
			continue
		}
		addrs, err := bound(l.value(1))
		if err != nil {
			leave(l.at, "bind %s: %v", l.value(1), err)
			continue
		}
		for j, a := range addrs {
			v := virtual{name: s.name, at: s.at, addr: a, protocol: sources.TCP, hides: true}
			if err := v.haproxy(s, servers); err != nil {
				return err
			}
			if j == 0 && len(l.words) > 2 {
				v.noteChange(l.at, "bind options %s: svcproxy does not have them", strings.Join(l.words[2:], " "))
			}
			h.virtuals = append(h.virtuals, v)
		}
	}
	return nil
}

// bound reads the addresses of a bind line: ADDRESS:PORT[-PORT], several with commas.
func bound(text string) ([]netip.AddrPort, error) {
	var all []netip.AddrPort
	for one := range strings.SplitSeq(text, ",") {
		i := strings.LastIndexByte(one, ':')
		if i < 0 {
			return nil, fmt.Errorf("want an address and a port")
		}
		host := strings.Trim(strings.TrimPrefix(strings.TrimPrefix(one[:i], "ipv4@"), "ipv6@"), "[]")
		if _, err := netip.ParseAddr(host); err != nil {
			return nil, fmt.Errorf("%q is no address: a service needs the addresses that it has on this node", host)
		}
		addrs, err := addrsAndPorts(host, one[i+1:])
		if err != nil {
			return nil, err
		}
		for _, a := range addrs {
			if a.Addr().IsUnspecified() || a.Port() == 0 {
				return nil, fmt.Errorf("a service needs the addresses that it has on this node, and ports")
			}
		}
		all = append(all, addrs...)
	}
	return all, nil
}

// balances are the schedulers that come near to HAProxy's.
var balances = map[string]string{"roundrobin": "wrr", "static-rr": "wrr", "leastconn": "wlc", "source": "sh"}

// haproxy reads the lines of the sections of a virtual server.
func (v *virtual) haproxy(front, servers *section) error {
	v.scheduler = "wrr" // HAProxy's default
	check := haproxyCheck(v, servers)
	defaults := map[string]string{}
	for i := range servers.lines {
		l := &servers.lines[i]
		switch l.words[0] {
		case "source":
			if l.value(2) == "usesrc" {
				v.hides = false
			}
		case "balance":
			if v.scheduler = balances[l.value(1)]; v.scheduler == "" {
				v.scheduler = "wlc"
				v.noteChange(l.at, "balance %s: taken as wlc", l.value(1))
			}
		case "stick":
			if l.value(1) == "on" && l.value(2) == "src" {
				v.affinity = sources.DefaultAffinityTimeout
			} else {
				v.noteChange(l.at, "%s: svcproxy knows clients by their addresses only", word(l))
			}
		case "stick-table":
			v.stickTable(l)
		case "default-server":
			maps.Copy(defaults, v.serverOptions(l, l.words[1:]))
		case "server":
			if err := v.server(l, defaults, check); err != nil {
				return fmt.Errorf("%s: %w", l.at, err)
			}
		case "server-template":
			v.noteChange(l.at, "server-template: svcproxy resolves no names")
		}
	}
	for i := range front.lines {
		if l := &front.lines[i]; slices.Contains([]string{"acl", "use_backend", "tcp-request", "maxconn", "filter"}, l.words[0]) {
			v.noteChange(l.at, "%s: svcproxy does not have it", word(l))
		}
	}
	if check != nil && slices.ContainsFunc(v.reals, func(r real) bool { return !r.unchecked }) {
		v.check = check
	} else {
		for i := range v.reals {
			v.reals[i].unchecked = false
		}
	}
	return nil
}

// stickTable takes the time after which a client is forgotten.
func (v *virtual) stickTable(l *statement) {
	for i, w := range l.words {
		if w == "expire" && v.affinity > 0 {
			if d, err := haproxyTime(l.value(i+1), time.Millisecond); err == nil {
				v.setAffinity(l.at, uint64(d/time.Second))
			}
		}
	}
}

// plainOptions are the options of a server that have no value.
var plainOptions = []string{"check", "backup", "disabled", "enabled", "send-proxy", "send-proxy-v2", "check-ssl", "ssl", "no-check", "non-stick", "check-send-proxy", "tfo"}

// serverOptions reads the options of a server line.
func (v *virtual) serverOptions(l *statement, words []string) map[string]string {
	o := map[string]string{}
	for i := 0; i < len(words); i++ {
		if w := words[i]; slices.Contains(plainOptions, w) {
			o[w] = w
		} else if i+1 < len(words) {
			i++
			o[w] = words[i]
		} else {
			v.note(l.at, "server option %s: not known here", w)
		}
	}
	return o
}

// server reads "server NAME ADDRESS[:PORT] OPTIONS".
func (v *virtual) server(l *statement, defaults map[string]string, check *sources.HealthCheck) error {
	place := l.value(2)
	r := real{at: l.at, weight: sources.DefaultWeight}
	if a, err := netip.ParseAddr(strings.Trim(place, "[]")); err == nil {
		r.addr = netip.AddrPortFrom(a, v.addr.Port())
	} else if r.addr, err = netip.ParseAddrPort(place); err != nil {
		v.noteChange(l.at, "server %s: %q is no address, and svcproxy resolves no names", l.value(1), place)
		return nil
	}
	o := maps.Clone(defaults)
	maps.Copy(o, v.serverOptions(l, l.words[min(3, len(l.words)):]))
	if w := o["weight"]; w != "" {
		n, err := strconv.ParseUint(w, 10, 31)
		if err != nil {
			return fmt.Errorf("weight %q: want a number", w)
		}
		r.weight = uint32(n)
	}
	r.backup, r.notReady = o["backup"] != "", o["disabled"] != ""
	r.unchecked = o["check"] == "" || o["no-check"] != ""
	if !r.unchecked {
		v.checkOptions(l, o, check)
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if !slices.Contains(knownOptions, name) {
			v.noteChange(l.at, "server option %s: svcproxy does not have it", strings.TrimSpace(name+" "+strings.TrimPrefix(o[name], name)))
		}
	}
	v.add(r)
	return nil
}

// knownOptions have a counterpart, or need none.
var knownOptions = []string{"check", "no-check", "weight", "backup", "disabled", "enabled", "inter", "fastinter", "downinter", "rise", "fall", "port", "slowstart", "check-ssl", "verify", "id", "on-marked-down"}

// checkOptions takes what a server line says of the check. The first server that says so counts.
func (v *virtual) checkOptions(l *statement, o map[string]string, c *sources.HealthCheck) {
	duration := func(name string, key sources.HealthKeys, to *time.Duration) {
		d, err := haproxyTime(o[name], time.Millisecond)
		switch {
		case o[name] == "":
		case err != nil:
			v.note(l.at, "%s %s: %v", name, o[name], err)
		case c.Unset.Has(key):
			*to = d
			c.Unset &^= key
		}
	}
	count := func(name string, key sources.HealthKeys, to *int) {
		if n, err := strconv.Atoi(o[name]); err == nil && n > 0 && c.Unset.Has(key) {
			*to = n
			c.Unset &^= key
		}
	}
	duration("inter", sources.HealthInterval, &c.Interval)
	duration("fastinter", sources.HealthFastInterval, &c.FastInterval)
	duration("downinter", sources.HealthDownInterval, &c.DownInterval)
	duration("slowstart", sources.HealthSlowStart, &c.SlowStart)
	count("fall", sources.HealthFall, &c.Fall)
	count("rise", sources.HealthRise, &c.Rise)
	if o["on-marked-down"] == "shutdown-sessions" {
		c.OnDown = sources.DownCut
		c.Unset &^= sources.HealthOnDown
	}
	if o["check-ssl"] != "" && c.Probe.Type == sources.CheckTCP {
		c.Probe.Type = sources.CheckTLS
	} else if o["check-ssl"] != "" && c.Probe.Type == sources.CheckHTTP {
		c.Probe.Type = sources.CheckHTTPS
	}
	if o["verify"] == "required" {
		v.note(l.at, "verify required: set verify and caFile of the health check")
	}
	if p := o["port"]; p != "" {
		if err := portOf(p, &c.Probe.Port); err != nil {
			v.note(l.at, "port %s: %v", p, err)
		}
	}
}

// haproxyTime reads a time such as 500, 2s or 1m; unit is that of a bare number.
func haproxyTime(text string, unit time.Duration) (time.Duration, error) {
	digits := strings.TrimRight(text, "usmhd")
	n, err := strconv.ParseUint(digits, 10, 31)
	units := map[string]time.Duration{"": unit, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
	u, ok := units[text[len(digits):]]
	if err != nil || !ok {
		return 0, fmt.Errorf("want a time such as 500ms, 2s or 1m")
	}
	return time.Duration(n) * u, nil
}

// haproxyCheck returns the check that a section describes. Its servers say which of them have it.
func haproxyCheck(v *virtual, s *section) *sources.HealthCheck {
	c := sources.DefaultHealthCheck()
	c.OnAllDown = sources.AllDownClosed
	c.Unset &^= sources.HealthOnAllDown
	p := &c.Probe
	p.Type = sources.CheckTCP
	for i := range s.lines {
		l := &s.lines[i]
		switch {
		case l.words[0] == "http-check" || l.words[0] == "tcp-check" || l.words[0] == "external-check":
			haproxyCheckLine(v, p, l)
		case l.words[0] == "timeout" && l.value(1) == "check":
			if d, err := haproxyTime(l.value(2), time.Millisecond); err == nil {
				p.Timeout = d
				c.Unset &^= sources.HealthTimeout
			}
		case l.words[0] != "option":
		case l.value(1) == "httpchk":
			httpCheck(p, l.words[2:])
		case l.value(1) == "ssl-hello-chk":
			p.Type = sources.CheckTLS
		case slices.Contains([]string{"smtpchk", "mysql-check", "pgsql-check", "redis-check", "ldap-check", "spop-check"}, l.value(1)):
			v.note(l.at, "option %s: the check only connects", l.value(1))
		}
	}
	return &c
}

// httpCheck reads "option httpchk [METHOD] URI [VERSION]".
func httpCheck(p *sources.Probe, words []string) {
	p.Type, p.Method, p.Path, p.ExpectStatus = sources.CheckHTTP, "OPTIONS", "/", "200-399"
	switch {
	case len(words) == 1:
		p.Path = words[0]
	case len(words) > 1:
		p.Method, p.Path = words[0], words[1]
	}
}

// haproxyCheckLine reads a rule of a check.
func haproxyCheckLine(v *virtual, p *sources.Probe, l *statement) {
	rest := l.words[min(2, len(l.words)):]
	switch {
	case l.words[0] == "http-check" && l.value(1) == "send":
		for i := 0; i+1 < len(rest); i += 2 {
			switch rest[i] {
			case "meth":
				p.Method = rest[i+1]
			case "uri":
				p.Path = rest[i+1]
			case "hdr":
				if i+2 < len(rest) && strings.EqualFold(rest[i+1], "host") {
					p.Host = rest[i+2]
				}
				i++
			}
		}
	case l.value(1) == "expect" && l.value(2) == "status":
		p.ExpectStatus = l.value(3)
	case l.value(1) == "expect" && l.value(2) == "string" && l.words[0] == "http-check":
		p.ExpectBody = strings.Join(l.words[3:], " ")
	case l.value(1) == "expect" && l.value(2) == "string":
		p.Expect = strings.Join(l.words[3:], " ")
	case l.value(1) == "send" && l.words[0] == "tcp-check":
		p.Send += strings.Join(rest, " ")
	case l.value(1) == "connect" && len(rest) == 0:
	default:
		v.note(l.at, "%s: svcproxy's check has no such rule", word(l))
	}
}

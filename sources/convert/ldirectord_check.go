package convert

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// checkTypes are the words of checktype.
var checkTypes = []string{"connect", "negotiate", "ping", "off", "on", "external", "external-perl"}

// ldirectordCheck is what a virtual says of its check.
type ldirectordCheck struct {
	kind, service, request, receive, host, method, command string
	port                                                   uint16
	at, requestAt, receiveAt                               sources.Origin
	pairs                                                  map[netip.AddrPort]ldirectordPair // of each real server
}

// ldirectordPair is a request and the answer to it, as one real server has them; "" = those of the virtual.
type ldirectordPair struct {
	at   sources.Origin
	text string
}

// key takes a key of the check. It returns false if the key is another one.
func (c *ldirectordCheck) key(at sources.Origin, key, value string) (known bool, err error) {
	switch key {
	case "checktype":
		c.kind, c.at = value, at
		if _, err := count(value); err != nil && !slices.Contains(checkTypes, value) {
			return true, fmt.Errorf("want one of %s, or a number", strings.Join(checkTypes, ", "))
		}
	case "service":
		if !knownService(value) {
			return true, fmt.Errorf("ldirectord has no such service")
		}
		c.service, c.at = value, at
	case "request":
		c.request, c.requestAt = unquote(value), at
	case "receive":
		c.receive, c.receiveAt = unquote(value), at
	case "virtualhost":
		c.host = unquote(value)
	case "httpmethod":
		if c.method = strings.ToUpper(value); c.method != "GET" && c.method != "HEAD" {
			err = fmt.Errorf("want GET or HEAD")
		}
	case "checkcommand":
		c.command = unquote(value)
	case "checkport":
		err = portOf(value, &c.port)
	default:
		return false, nil
	}
	return true, err
}

// checks makes the checks of the real servers of a virtual: they differ where they have requests of their own.
func (l *ldirectord) checks(v *virtual) {
	known := map[string]*sources.HealthCheck{}
	for i := range v.reals {
		r := &v.reals[i]
		pair := l.check.pairs[r.addr]
		if _, made := known[pair.text]; !made && !r.backup {
			known[pair.text] = l.healthCheck(v, pair)
		}
		if r.checkAt = l.check.at; pair.text != "" {
			r.checkAt = pair.at
		}
		if !r.backup {
			r.check = known[pair.text]
		}
	}
}

// healthCheck makes the check of real servers with one request and answer; nil if there is none.
func (l *ldirectord) healthCheck(v *virtual, pair ldirectordPair) *sources.HealthCheck {
	c := sources.DefaultHealthCheck()
	c.Interval, c.FastInterval, c.DownInterval, c.Fall, c.Rise = l.own.interval, l.own.interval, l.own.interval, l.own.failures, 1
	c.Unset &^= sources.HealthInterval | sources.HealthFastInterval | sources.HealthDownInterval | sources.HealthFall | sources.HealthRise
	c.OnDown, c.OnAllDown = sources.DownCut, sources.AllDownClosed
	c.Unset &^= sources.HealthOnDown | sources.HealthOnAllDown | sources.HealthTimeout
	if l.own.quiescent {
		c.OnDown = sources.DownDrain
	}
	check := l.check
	if parts := strings.Split(pair.text, `"`); len(parts) > 3 { // "REQUEST", "RECEIVE"
		check.request, check.receive, check.requestAt, check.receiveAt = parts[1], parts[3], pair.at, pair.at
	}
	if !check.probe(v, &c.Probe) {
		return nil
	}
	c.Probe.Timeout = l.own.timeout(l.check.kind)
	if l.check.kind == "ping" {
		c.Fall *= l.own.pings
	}
	c.Probe.Port = l.check.port
	if c.Probe.Type.Protocol() == 0 {
		c.Probe.Port = 0
	}
	return &c
}

// timeout is that of a kind of check. Each of the two timeouts is the other one's default.
func (t *ldirectordTuning) timeout(kind string) time.Duration {
	_, err := strconv.Atoi(kind)
	negotiates := kind == "negotiate" || err == nil
	switch {
	case negotiates && t.negotiate > 0, !negotiates && t.connect == 0 && t.negotiate > 0:
		return t.negotiate
	case t.connect > 0:
		return t.connect
	case negotiates:
		return 30 * time.Second
	}
	return 5 * time.Second
}

// cut takes the limits at the end of a real server, and returns its request and answer.
func (l *limits) cut(rest []string) (string, error) {
	for len(rest) > 0 {
		last := strings.Trim(rest[len(rest)-1], `"`)
		limit, n := &l.lower, strings.TrimPrefix(last, "l:")
		if n == last {
			limit, n = &l.upper, strings.TrimPrefix(last, "u:")
		}
		number, err := threshold(n)
		if n == last || err != nil {
			break
		}
		*limit = number
		rest = rest[:len(rest)-1]
	}
	text := strings.Join(rest, " ")
	if text != "" && (strings.Count(text, `"`) != 4 || text[0] != '"' || text[len(text)-1] != '"') {
		return "", fmt.Errorf("want [WEIGHT] [\"REQUEST\", \"RECEIVE\"] [l:NUMBER] [u:NUMBER] behind the method")
	}
	return text, nil
}

// probe sets what a probe does. It returns false if endpoints are not checked.
func (c *ldirectordCheck) probe(v *virtual, p *sources.Probe) bool {
	if _, err := strconv.Atoi(c.kind); err == nil {
		v.note(c.at, "checktype %s: each check negotiates, none only connects", c.kind)
		return c.negotiate(v, p)
	}
	switch c.kind {
	case "on":
		return false
	case "off":
		v.note(c.at, "checktype off: ldirectord adds no real server of it, so none is ready here")
		for i := range v.reals {
			v.reals[i].notReady = true
		}
		return false
	case "connect", "ping":
		p.Type = sources.CheckTCP
		if c.kind == "ping" || v.protocol == sources.UDP { // as ldirectord does
			p.Type = sources.CheckPing
		}
		return true
	case "external-perl":
		v.noteChange(c.at, "checktype external-perl: svcproxy has no Perl inside, so the endpoints are not checked")
		return false
	case "external":
		if program(p, []string{c.command}); p.Command == "" {
			v.noteChange(c.at, "checkcommand: want a program with an absolute path, so the endpoints are not checked")
			return false
		}
		p.Type, p.OnlyZero = sources.CheckExec, true
		p.Args = strings.TrimPrefix(p.Args+"\x00"+strings.Join(v.externalArgs(), "\x00"), "\x00")
		v.programPlace(c.at, p)
		return true
	}
	return c.negotiate(v, p)
}

// externalArgs are the arguments that ldirectord gives to a checkcommand: the address and port of the virtual, or its mark
// and 0, and those of the real server. Addresses of IPv6 are in brackets.
// The port of the virtual is the word for the endpoint's where all have it, so that several virtuals can be one service.
func (v *virtual) externalArgs() []string {
	address, port := endpointAddress, endpointPort
	if v.ipv6 || v.addr.Addr().Is6() {
		address = "[" + address + "]"
	}
	others := func(p uint16) bool { // whether a real server has another port
		return slices.ContainsFunc(v.reals, func(r real) bool { return !r.backup && r.addr.Port() != p })
	}
	if v.mark == 0 {
		host, own := v.addr.Addr().String(), endpointPort
		if others(v.addr.Port()) {
			own = strconv.Itoa(int(v.addr.Port()))
		}
		if v.addr.Addr().Is6() {
			host = "[" + host + "]"
		}
		return []string{host, own, address, port}
	}
	// Behind a mark an endpoint may have no port here: IPVS keeps that of the packet.
	if p := usualPort(v.reals, 0); !others(p) {
		port = strconv.Itoa(int(p))
	}
	return []string{strconv.FormatUint(uint64(v.mark), 10), "0", address, port}
}

// serviceOf is the service that ldirectord takes for a port.
var serviceOf = map[uint16]string{
	21: "ftp", 25: "smtp", 53: "dns", 80: "http", 110: "pop", 119: "nntp", 143: "imap", 389: "ldap", 443: "https", 587: "submission", 636: "ldaps",
	993: "imaps", 995: "pops", 1521: "oracle", 1812: "radius", 3128: "http_proxy", 3306: "mysql", 5060: "sip", 5432: "pgsql",
}

// knownService reports whether ldirectord has a service.
func knownService(name string) bool {
	for _, s := range serviceOf {
		if s == name {
			return true
		}
	}
	return name == "none" || name == "simpletcp"
}

// greetings are what the servers of a service say first.
var greetings = map[string]string{"ftp": "220", "smtp": "220", "submission": "220", "pop": "+OK", "imap": "OK", "nntp": "20"}

// negotiate is a check that speaks the protocol of the service, which may follow from the port.
func (c *ldirectordCheck) negotiate(v *virtual, p *sources.Probe) bool {
	service := c.service
	if service == "" {
		service = serviceOf[v.addr.Port()]
	}
	switch service {
	case "", "none":
		v.note(c.at, "service none: ldirectord checks nothing, so the endpoints are not checked")
		return false
	case "http", "https":
		c.http(v, p, service)
	case "dns":
		p.Type, p.Query, p.RecordType, p.Expect = sources.CheckDNS, strings.Trim(c.request, "/"), "A", c.literal(v)
		if p.Query == "" {
			p.Query = "."
		}
	case "simpletcp":
		p.Type, p.Send, p.Expect = sources.CheckTCP, strings.ReplaceAll(c.request, `\n`, "\n"), c.literal(v)
	case "imaps", "pops", "ldaps":
		p.Type = sources.CheckTLS
		v.note(c.at, "service %s: only the TLS handshake is checked", service)
		c.unspoken(v, service)
	default:
		c.connects(v, p, service)
	}
	return true
}

// connects is a check of a service that svcproxy does not speak.
func (c *ldirectordCheck) connects(v *virtual, p *sources.Probe, service string) {
	greeting := greetings[service]
	switch {
	case v.protocol == sources.UDP:
		p.Type = sources.CheckPing
		v.note(c.at, "service %s: the check only pings", service)
	case greeting != "":
		p.Type, p.Expect = sources.CheckTCP, greeting
		v.note(c.at, "service %s: only the greeting %s is checked", service, greeting)
	default:
		p.Type = sources.CheckTCP
		v.note(c.at, "service %s: the check only connects", service)
	}
	c.unspoken(v, service)
}

// unspoken notes the request and answer of a service that svcproxy does not speak.
func (c *ldirectordCheck) unspoken(v *virtual, service string) {
	if c.request != "" && c.requestAt.Line > 0 {
		v.note(c.requestAt, "request of service %s: svcproxy does not send it", service)
	}
	if c.receive != "" && c.receiveAt.Line > 0 {
		v.note(c.receiveAt, "receive of service %s: svcproxy does not look for it", service)
	}
}

func (c *ldirectordCheck) http(v *virtual, p *sources.Probe, service string) {
	if strings.Contains(c.request, "://") {
		v.noteChange(c.requestAt, "request: a check asks the endpoint itself, for /")
		c.request = ""
	}
	p.Type, p.Method, p.Path, p.Host, p.ExpectBody = sources.CheckHTTP, "GET", "/"+strings.ReplaceAll(strings.TrimPrefix(c.request, "/"), " ", "%20"), c.host, c.literal(v)
	if service == "https" {
		p.Type = sources.CheckHTTPS
	}
	switch {
	case c.method == "HEAD" && p.ExpectBody == "":
		p.Method = c.method
	case c.method == "HEAD":
		v.note(c.receiveAt, "httpmethod HEAD with receive: the check uses GET, as only that returns a text")
	}
}

// literal is the text that receive looks for, if it is one. A dot stands for itself.
func (c *ldirectordCheck) literal(v *virtual) string {
	text, ok := literal(strings.NewReplacer(`\.`, `\.`, `.`, `\.`).Replace(c.receive))
	if !ok && c.receive != "" {
		v.noteChange(c.receiveAt, "receive: a check looks for a text, not for a pattern, so any answer will do")
	}
	return text
}

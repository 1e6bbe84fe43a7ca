package convert

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// ldirectordKeys are the keys before the first virtual, by which a file is known.
var ldirectordKeys = []string{
	"checktimeout", "negotiatetimeout", "checkinterval", "failurecount", "autoreload", "logfile", "quiescent", "fallback", "fallbackcommand",
	"emailalert", "emailalertfreq", "emailalertfrom", "emailalertstatus", "callback", "execute", "supervised", "fork", "checkcount",
	"cleanstop", "readdquiescent", "smtp", "maintenancedir", "virtual", "virtual6", "real", "real6",
}

// readLDirectord reads ldirectord.cf.
func readLDirectord(f File) (Result, error) {
	l := ldirectord{tuning: ldirectordTuning{interval: 10 * time.Second, timeout: 5 * time.Second, failures: 1, quiescent: true}}
	line := 0
	for text := range strings.Lines(string(f.Data)) {
		line++
		at := sources.Origin{Source: string(LDirectord), File: f.Name, Line: line}
		if i := strings.IndexByte(text, '#'); i >= 0 && (i == 0 || text[i-1] != '\\') {
			text = text[:i]
		}
		key, value, ok := strings.Cut(text, "=")
		switch {
		case strings.TrimSpace(text) == "":
			continue
		case !ok:
			return Result{}, fmt.Errorf("%s: %q: want KEY = VALUE", at, strings.TrimSpace(text))
		}
		inside := strings.HasPrefix(text, "\t") || strings.HasPrefix(text, "    ")
		if err := l.line(at, inside, strings.TrimSpace(key), strings.TrimSpace(value)); err != nil {
			return Result{}, fmt.Errorf("%s: %w", at, err)
		}
	}
	l.end()
	r := services(l.virtuals)
	r.Notes = append(r.Notes, l.notes...)
	r.sortNotes()
	return r, nil
}

type ldirectord struct {
	tuning   ldirectordTuning
	virtuals []virtual
	notes    []Note

	open  *virtual // the virtual that lines belong to
	skip  bool     // it is not imported
	own   ldirectordTuning
	check ldirectordCheck
}

// ldirectordTuning is what a file can say for all virtuals, and each for itself.
type ldirectordTuning struct {
	interval, timeout time.Duration
	failures          int
	quiescent         bool
	fallback          string
	fallbackAt        sources.Origin
}

type ldirectordCheck struct {
	kind, service, request, receive, host, method, command string
	port                                                   uint16
	at                                                     sources.Origin
}

func (l *ldirectord) note(at sources.Origin, format string, args ...any) {
	if l.open != nil {
		l.open.note(at, format, args...)
		return
	}
	l.notes = append(l.notes, Note{Origin: at, Message: fmt.Sprintf(format, args...)})
}

// line takes a line. A line that begins with a blank belongs to the virtual above it.
func (l *ldirectord) line(at sources.Origin, inside bool, key, value string) error {
	switch {
	case key == "virtual" || key == "virtual6":
		l.end()
		return l.virtual(at, value)
	case !inside:
		l.end()
		return l.tune(&l.tuning, at, key, value)
	case l.skip:
		return nil
	case l.open == nil:
		return fmt.Errorf("%s belongs to a virtual, and there is none above", key)
	}
	return l.inside(at, key, value)
}

func (l *ldirectord) virtual(at sources.Origin, value string) error {
	l.own, l.check, l.skip = l.tuning, ldirectordCheck{kind: "negotiate"}, false
	if _, err := strconv.ParseUint(value, 10, 32); err == nil {
		l.skip = true
		l.notes = append(l.notes, Note{Origin: at, Message: "virtual by firewall mark " + value + ": svcproxy serves addresses only", Changes: true})
		return nil
	}
	addr, err := netip.ParseAddrPort(value)
	if err != nil {
		return fmt.Errorf("%q: want ADDRESS:PORT in numbers", value)
	}
	l.open = &virtual{at: at, addr: addr, protocol: sources.TCP, scheduler: "wrr"}
	return nil
}

// tune takes a key that may stand at the top and in a virtual.
func (l *ldirectord) tune(t *ldirectordTuning, at sources.Origin, key, value string) (err error) {
	switch key {
	case "checkinterval":
		t.interval, err = seconds(value)
	case "checktimeout", "negotiatetimeout":
		t.timeout, err = seconds(value)
	case "failurecount", "checkcount":
		t.failures, err = strconv.Atoi(value)
	case "quiescent":
		t.quiescent = value == "yes"
	case "fallback", "fallback6":
		t.fallback, t.fallbackAt = value, at
	case "autoreload", "logfile", "supervised", "fork", "cleanstop", "readdquiescent":
	default:
		l.note(at, "%s: svcproxy does not have it", key)
	}
	if err != nil {
		return fmt.Errorf("%s %q: want a number", key, value)
	}
	return nil
}

func (l *ldirectord) inside(at sources.Origin, key, value string) (err error) {
	v, c := l.open, &l.check
	switch key {
	case "real", "real6":
		return l.real(at, value)
	case "scheduler":
		v.scheduler = ""
		v.setScheduler(at, value)
	case "protocol":
		if v.protocol, err = sources.ParseProtocol(strings.ToUpper(value)); err != nil {
			return err
		}
	case "persistent":
		n, err := strconv.ParseUint(value, 10, 32)
		if err != nil {
			return fmt.Errorf("persistent %q: want seconds", value)
		}
		v.setAffinity(at, n)
	case "netmask":
		if value != "255.255.255.255" && value != "128" {
			v.noteChange(at, "netmask %s: a client stays by its address", value)
		}
	case "checktype":
		c.kind, c.at = value, at
	case "service":
		c.service, c.at = value, at
	case "request":
		c.request = unquote(value)
	case "receive":
		c.receive = unquote(value)
	case "virtualhost":
		c.host = unquote(value)
	case "httpmethod":
		c.method = strings.ToUpper(value)
	case "checkcommand":
		c.command = unquote(value)
	case "checkport":
		err = portOf(value, &c.port)
	case "ops":
		v.noteChange(at, "one-packet scheduling (ops): svcproxy does not have it")
	default:
		return l.tune(&l.own, at, key, value)
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w", key, value, err)
	}
	return nil
}

func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

// real reads ADDRESS[->ADDRESS][:PORT] METHOD [WEIGHT] ["REQUEST", "RECEIVE"].
func (l *ldirectord) real(at sources.Origin, value string) error {
	v := l.open
	f := strings.Fields(value)
	if len(f) == 0 {
		return fmt.Errorf("want the address of a real server")
	}
	hosts, port, err := realPlace(f[0], v.addr.Port())
	if err != nil {
		return err
	}
	r := real{at: at, weight: sources.DefaultWeight}
	rest := f[1:]
	if len(rest) > 0 {
		methods := map[string]sources.Forward{"masq": sources.Masquerade, "gate": sources.Direct, "ipip": sources.IPIP}
		v.setForward(at, methods[rest[0]], rest[0])
		rest = rest[1:]
	}
	if len(rest) > 0 {
		if n, err := strconv.ParseUint(rest[0], 10, 31); err == nil {
			r.weight, rest = uint32(n), rest[1:]
		}
	}
	if len(rest) > 0 {
		v.note(at, "request and answer of one real server: they are taken from the virtual")
	}
	for _, a := range hosts {
		r.addr = netip.AddrPortFrom(a, port)
		v.add(r)
	}
	return nil
}

// realPlace reads the addresses and the port of a real server.
func realPlace(text string, byDefault uint16) ([]netip.Addr, uint16, error) {
	port := byDefault
	first, last, isRange := strings.Cut(text, "->")
	place := first
	if isRange {
		place = last
	}
	host := place
	if a, err := netip.ParseAddrPort(place); err == nil {
		host, port = a.Addr().String(), a.Port()
	}
	host = strings.Trim(host, "[]")
	if !isRange {
		first = host
	}
	from, err := netip.ParseAddr(strings.Trim(first, "[]"))
	to, err2 := netip.ParseAddr(host)
	if err != nil || err2 != nil {
		return nil, 0, fmt.Errorf("%q: want ADDRESS:PORT in numbers", text)
	}
	var all []netip.Addr
	for a := from; ; a = a.Next() {
		if all = append(all, a); a == to {
			return all, port, nil
		}
		if len(all) == maxRange || !a.Next().IsValid() {
			return nil, 0, fmt.Errorf("%q: want a range from a smaller to a larger address, of at most %d", text, maxRange)
		}
	}
}

// end finishes the virtual that is open.
func (l *ldirectord) end() {
	if l.open == nil {
		return
	}
	v := l.open
	if text := l.own.fallback; text != "" {
		hosts, port, err := realPlace(strings.Fields(text)[0], v.addr.Port())
		if err != nil {
			v.note(l.own.fallbackAt, "fallback: %v", err)
		}
		for _, a := range hosts {
			v.add(real{at: l.own.fallbackAt, addr: netip.AddrPortFrom(a, port), weight: sources.DefaultWeight, backup: true, unchecked: true})
		}
	}
	v.check = l.healthCheck(v)
	l.virtuals = append(l.virtuals, *v)
	l.open = nil
}

// healthCheck makes the check of a virtual.
func (l *ldirectord) healthCheck(v *virtual) *sources.HealthCheck {
	c := sources.DefaultHealthCheck()
	c.Interval, c.Probe.Timeout, c.Fall = l.own.interval, l.own.timeout, l.own.failures
	c.Unset &^= sources.HealthInterval | sources.HealthTimeout | sources.HealthFall
	c.OnDown, c.OnAllDown = sources.DownDrain, sources.AllDownClosed
	c.Unset &^= sources.HealthOnDown | sources.HealthOnAllDown
	if !l.own.quiescent {
		c.OnDown = sources.DownCut
	}
	if !l.check.probe(v, &c.Probe) {
		return nil
	}
	c.Probe.Port = l.check.port
	return &c
}

// probe sets what a probe does. It returns false if endpoints are not checked.
func (c *ldirectordCheck) probe(v *virtual, p *sources.Probe) bool {
	kind := c.kind
	if _, err := strconv.Atoi(kind); err == nil {
		kind = "connect" // a number: so many connects for each negotiation
	}
	switch kind {
	case "off":
		return false
	case "on", "connect":
		p.Type = sources.CheckTCP
		if v.protocol == sources.UDP {
			p.Type = sources.CheckUDP
		}
		return true
	case "ping":
		p.Type = sources.CheckPing
		return true
	case "external", "external-perl":
		program(p, strings.Fields(c.command))
		if kind == "external-perl" || p.Command == "" {
			v.noteChange(c.at, "checktype %s %s: no program with an absolute path, so the endpoints are not checked", kind, c.command)
			return false
		}
		p.Type = sources.CheckExec
		v.note(c.at, "the check's program gets the addresses in the environment, not as arguments")
		return true
	}
	return c.negotiate(v, p)
}

// negotiate is a check that speaks the protocol of the service, which may follow from the port.
func (c *ldirectordCheck) negotiate(v *virtual, p *sources.Probe) bool {
	service := c.service
	if service == "" {
		service = map[uint16]string{80: "http", 8080: "http", 443: "https", 53: "dns", 21: "ftp", 25: "smtp", 110: "pop", 143: "imap"}[v.addr.Port()]
	}
	switch service {
	case "http", "https":
		p.Type, p.Method, p.Path, p.Host, p.ExpectBody = sources.CheckHTTP, "GET", "/"+strings.TrimPrefix(c.request, "/"), c.host, c.receive
		if service == "https" {
			p.Type = sources.CheckHTTPS
		}
		if c.method == "HEAD" && c.receive == "" {
			p.Method = c.method
		}
	case "dns":
		p.Type, p.Query, p.RecordType, p.Expect = sources.CheckDNS, strings.Trim(c.request, "/"), "A", c.receive
		if p.Query == "" {
			p.Query = "."
		}
	case "simpletcp":
		p.Type, p.Send, p.Expect = sources.CheckTCP, c.request, c.receive
	case "":
		p.Type = sources.CheckTCP
	default:
		p.Type = sources.CheckTCP
		v.note(c.at, "service %s: the check only connects", service)
	}
	return true
}

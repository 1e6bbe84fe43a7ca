package convert

import (
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// haproxyCheck is the check of a section. Its servers say which of them have it, and how often.
type haproxyCheck struct {
	sources.HealthCheck
	connect, answer time.Duration // timeouts; 0 = none
	expects         bool          // an answer, so that no further step is possible
	tls             bool          // the check connects by TLS
	anyAnswer       bool          // a rule is lost
}

// checkOptions are the checks that svcproxy has, too. All others only connect.
var checkOptions = map[string]sources.Probe{
	"tcp-check":     {Type: sources.CheckTCP},
	"httpchk":       {Type: sources.CheckHTTP, Method: "OPTIONS", Path: "/", ExpectStatus: "200-399"},
	"ssl-hello-chk": {Type: sources.CheckTLS},
	"redis-check":   {Type: sources.CheckTCP, Send: "PING\r\n", Expect: "+PONG"},
}

// isCheckOption reports whether a line is "option CHECK", or "no option CHECK".
func isCheckOption(l *statement) bool {
	words := l.words
	if words[0] == "no" {
		words = words[1:]
	}
	if len(words) < 2 || words[0] != "option" {
		return false
	}
	name := words[1]
	return strings.HasSuffix(name, "-check") || strings.HasSuffix(name, "-chk") || name == "httpchk" || name == "smtpchk"
}

// haproxyCheckOf returns the check that a section describes. The last option counts.
func haproxyCheckOf(v *virtual, s *section) *haproxyCheck {
	c := &haproxyCheck{HealthCheck: sources.DefaultHealthCheck()}
	c.OnAllDown = sources.AllDownClosed
	c.Unset &^= sources.HealthOnAllDown
	c.Probe = checkOptions["tcp-check"]
	rules := "" // the word of those that count
	for i := range s.lines {
		l := &s.lines[i]
		if !isCheckOption(l) {
			continue
		}
		c.Probe, rules = checkOptions["tcp-check"], ""
		switch p, known := checkOptions[l.value(1)]; {
		case l.words[0] == "no":
		case !known:
			v.note(l.at, "%s: the check only connects", title(l))
		case l.value(1) == "httpchk":
			c.Probe, rules = p, "http-check"
			c.request(v, l)
		case l.value(1) == "tcp-check":
			rules = "tcp-check"
		default:
			c.Probe = p
		}
	}
	for i := range s.lines {
		l := &s.lines[i]
		switch word := l.words[0]; {
		case word == "timeout":
			c.timeout(v, l)
		case word == "http-check" && word == rules:
			c.httpRule(v, l)
		case word == "tcp-check" && word == rules:
			c.tcpRule(v, l)
		case word == "http-check" || word == "tcp-check":
			v.note(l.at, "%s: no effect on a check of type %s", title(l), c.Probe.Type)
		}
	}
	if p := &c.Probe; c.anyAnswer && p.Type == sources.CheckHTTP {
		p.ExpectStatus, p.ExpectBody = "100-599", ""
	} else if c.anyAnswer {
		p.Send, p.Expect = "", ""
	}
	return c
}

// request reads "option httpchk [METHOD] URI [VERSION]".
func (c *haproxyCheck) request(v *virtual, l *statement) {
	switch words := l.words[2:]; len(words) {
	case 0:
	case 1:
		c.Probe.Path = words[0]
	default:
		c.Probe.Method, c.Probe.Path = words[0], words[1]
		if strings.Contains(strings.Join(words[2:], " "), "\n") {
			c.noRule(v, l) // a header behind the version
		}
	}
}

func (c *haproxyCheck) timeout(v *virtual, l *statement) {
	to := map[string]*time.Duration{"check": &c.answer, "connect": &c.connect}[l.value(1)]
	if to == nil {
		return
	}
	d, err := haproxyTime(l.value(2), time.Millisecond)
	if err != nil {
		v.note(l.at, "%s: %v", title(l), err)
		return
	}
	*to = d
}

// noRule notes a rule that svcproxy's check does not have. Without it a server that serves must not be down.
func (c *haproxyCheck) noRule(v *virtual, l *statement) {
	v.noteChange(l.at, "%s: svcproxy's check has no such rule, so a server counts as up whatever it answers", title(l))
	c.anyAnswer = true
}

// dial reads "connect [port PORT] [ssl]".
func (c *haproxyCheck) dial(v *virtual, l *statement) {
	for i := 2; i < len(l.words); i++ {
		switch w := l.words[i]; {
		case w == "ssl":
			c.tls = true
		case w == "port" && portOf(l.value(i+1), &c.Probe.Port) == nil:
			i++
		case w == "comment":
			return
		default:
			c.noRule(v, l)
			return
		}
	}
}

// httpRule reads "http-check send [meth METHOD] [uri URI] [hdr NAME VALUE]" and
// "http-check expect status|string VALUE".
func (c *haproxyCheck) httpRule(v *virtual, l *statement) {
	p := &c.Probe
	switch what, kind := l.value(1), l.value(2); {
	case what == "comment":
	case what == "connect":
		c.dial(v, l)
	case what == "expect" && len(l.words) == 4 && kind == "status":
		p.ExpectStatus = l.value(3)
	case what == "expect" && len(l.words) == 4 && kind == "string":
		p.ExpectBody = l.value(3)
	case what == "send":
		for i := 2; i < len(l.words); i += 2 {
			switch value := l.value(i + 1); l.words[i] {
			case "meth":
				p.Method = value
			case "uri":
				p.Path = value
			case "ver":
			case "hdr":
				c.header(value, l.value(i+2))
				i++
			default:
				c.noRule(v, l)
				return
			}
		}
	default:
		c.noRule(v, l)
	}
}

// header adds a header to the request.
func (c *haproxyCheck) header(name, value string) {
	p := &c.Probe
	switch usual := textproto.CanonicalMIMEHeaderKey(name); usual {
	case "Host":
		p.Host = value
	case "Connection": // always closed
	default:
		lines := append(strings.FieldsFunc(p.Headers, func(r rune) bool { return r == '\n' }), usual+": "+value)
		slices.Sort(lines)
		p.Headers = strings.Join(lines, "\n")
	}
}

// tcpRule reads a rule of a check that sends once and expects once.
func (c *haproxyCheck) tcpRule(v *virtual, l *statement) {
	p, data := &c.Probe, l.value(2)
	var err error
	switch what, kind := l.value(1), l.value(2); {
	case what == "comment":
	case c.expects:
		v.note(l.at, "%s: svcproxy's check has no further steps", title(l))
	case what == "connect":
		c.dial(v, l)
	case what == "send" && len(l.words) == 3:
		p.Send += data
	case what == "send-binary" && len(l.words) == 3:
		if err = hexOf(data, &data); err == nil {
			p.Send += data
		}
	case what == "expect" && len(l.words) == 4 && kind == "string":
		p.Expect, c.expects = l.value(3), true
	case what == "expect" && len(l.words) == 4 && kind == "binary":
		err, c.expects = hexOf(l.value(3), &p.Expect), true
	default:
		c.noRule(v, l)
	}
	if err != nil {
		v.noteChange(l.at, "%s: %v", title(l), err)
	}
}

// of returns the check of a server with some options.
func (c *haproxyCheck) of(v *virtual, l *statement, o map[string]string, port uint16) *sources.HealthCheck {
	own := *c
	own.Interval = 2 * time.Second // HAProxy's default
	own.take(v, l, o, "inter")
	own.FastInterval, own.DownInterval = own.Interval, own.Interval
	for _, word := range []string{"fastinter", "downinter", "fall", "rise", "slowstart", "port", "on-marked-down"} {
		own.take(v, l, o, word)
	}
	if c.tls || o["check-ssl"] != "" || o["ssl"] != "" {
		own.overTLS(v, l)
	}
	// Without "timeout check" the whole check may last as long as inter. With it, connecting may last as long as
	// the smaller of inter and "timeout connect", and the answer may take "timeout check" after that.
	p := &own.Probe
	if p.Timeout = own.Interval; c.answer > 0 {
		if c.connect > 0 {
			p.Timeout = min(c.connect, own.Interval)
		}
		p.Timeout = min(p.Timeout+c.answer, 10*own.Interval) // a services file with more is refused
	}
	own.Unset &^= sources.HealthInterval | sources.HealthFastInterval | sources.HealthDownInterval | sources.HealthTimeout
	if p.Port == port {
		p.Port = 0 // the endpoint's own, as for servers that do not say it
	}
	return &own.HealthCheck
}

// take takes an option of a server.
func (c *haproxyCheck) take(v *virtual, l *statement, o map[string]string, word string) {
	if o[word] == "" {
		return
	}
	if err := checkWords[HAProxy][word](&c.HealthCheck, o[word]); err != nil {
		v.note(l.at, "%s: %v", word, err)
	}
}

func (c *haproxyCheck) overTLS(v *virtual, l *statement) {
	switch p := &c.Probe; p.Type {
	case sources.CheckHTTP:
		p.Type = sources.CheckHTTPS
	case sources.CheckTCP:
		if p.Send != "" || p.Expect != "" {
			v.noteChange(l.at, "check-ssl: a check with TLS sends and expects no text")
		}
		*p = sources.Probe{Type: sources.CheckTLS, Port: p.Port}
	}
}

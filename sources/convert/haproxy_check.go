package convert

import (
	"fmt"
	"net/netip"
	"net/textproto"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// haproxyProbe is the check of a section. Its servers say which of them have it, how often, and where.
type haproxyProbe struct {
	sources.HealthCheck
	expects map[string]bool // kinds of rules that had an expectation
	connect time.Duration   // timeout connect; 0 = none
	answer  time.Duration   // timeout check; 0 = none
	hello   bool            // option ssl-hello-chk
	checked bool            // a server has it
}

// of returns the check of a server; nil if it is at another address than the server's.
func (c *haproxyProbe) of(v *virtual, l *statement, o map[string]string, server netip.AddrPort) *sources.HealthCheck {
	if text := o["addr"]; text != "" {
		if a, err := netip.ParseAddr(hostOf(text)); err != nil || a != server.Addr() {
			v.noteChange(l.at, "server option addr: svcproxy checks no other address than the endpoint's, so the endpoint is not checked")
			return nil
		}
	}
	c.checked = true
	own := haproxyServer{haproxyProbe: *c, options: o}
	own.duration(v, l, "slowstart", sources.HealthSlowStart, &own.SlowStart)
	own.count(v, l, "fall", sources.HealthFall, &own.Fall)
	own.count(v, l, "rise", sources.HealthRise, &own.Rise)
	switch marked := o["on-marked-down"]; marked {
	case "":
	case "shutdown-sessions":
		own.OnDown = sources.DownCut
		own.Unset &^= sources.HealthOnDown
	default:
		v.note(l.at, "on-marked-down: its word is not known here")
	}
	if o["check-ssl"] != "" || o["ssl"] != "" {
		own.overTLS(v, l)
	}
	own.timing(v, l) // by what the check waits for
	if o["verify"] == "required" {
		v.note(l.at, "verify required: set verify and caFile of the health check")
	}
	if p := o["port"]; p != "" {
		if err := portOf(p, &own.Probe.Port); err != nil {
			v.note(l.at, "port: %v", err)
		}
	}
	if own.Probe.Port == server.Port() {
		own.Probe.Port = 0 // the endpoint's own, as for servers that do not say it
	}
	return &own.HealthCheck
}

// haproxyServer is the check of a server, with the options of its line.
type haproxyServer struct {
	haproxyProbe
	options map[string]string
}

// timing sets the intervals and the timeout. HAProxy takes each interval that is not given from inter. Without "timeout
// check" the whole check may last as long as inter. With it, connecting may last as long as the smaller of inter and
// "timeout connect", and the answer may take "timeout check" after that.
func (c *haproxyServer) timing(v *virtual, l *statement) {
	c.Interval = 2 * time.Second // HAProxy's default
	c.duration(v, l, "inter", sources.HealthInterval, &c.Interval)
	c.FastInterval, c.DownInterval = c.Interval, c.Interval
	c.duration(v, l, "fastinter", sources.HealthFastInterval, &c.FastInterval)
	c.duration(v, l, "downinter", sources.HealthDownInterval, &c.DownInterval)
	c.Probe.Timeout = c.Interval
	if c.limitsConnect() {
		c.Probe.Timeout = min(c.connect, c.Interval)
	}
	if c.splits() {
		c.Probe.Timeout += c.answer
	}
	c.Unset &^= sources.HealthInterval | sources.HealthFastInterval | sources.HealthDownInterval | sources.HealthTimeout
	if most := 10 * c.Interval; c.Probe.Timeout > most { // a services file with more is refused
		v.noteChange(l.at, "timeout check %s: connecting and the answer together get %s, 10 times inter", c.answer, most)
		c.Probe.Timeout = most
	}
}

// limitsConnect reports whether "timeout connect" limits how long the check may connect.
func (c *haproxyProbe) limitsConnect() bool { return c.checked && c.answer > 0 && c.connect > 0 }

// splits reports whether the check has a time for connecting and another one for the answer. A handshake of TLS is a part
// of connecting. The answer to ssl-hello-chk is an answer.
func (c *haproxyProbe) splits() bool {
	if !c.checked || c.answer == 0 {
		return false
	}
	switch p := &c.Probe; p.Type {
	case sources.CheckHTTP, sources.CheckHTTPS:
		return true
	case sources.CheckTLS:
		return c.hello
	default:
		return p.Expect != ""
	}
}

func (c *haproxyProbe) overTLS(v *virtual, l *statement) {
	switch p := &c.Probe; {
	case p.Type == sources.CheckHTTP:
		p.Type = sources.CheckHTTPS
	case p.Type == sources.CheckTCP:
		if p.Send != "" || p.Expect != "" {
			v.note(l.at, "check-ssl: a check with TLS sends and expects no text")
			p.Send, p.Expect = "", ""
		}
		p.Type = sources.CheckTLS
	}
}

func (c *haproxyServer) duration(v *virtual, l *statement, name string, key sources.HealthKeys, to *time.Duration) {
	text := c.options[name]
	if text == "" {
		return
	}
	d, err := haproxyTime(text, time.Millisecond)
	if err != nil {
		v.note(l.at, "%s %s: %v", name, plain(text), err)
		return
	}
	*to = d
	c.Unset &^= key
}

func (c *haproxyServer) count(v *virtual, l *statement, name string, key sources.HealthKeys, to *int) {
	text := c.options[name]
	if text == "" {
		return
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		v.note(l.at, "%s: want a number from 1", name)
		return
	}
	*to = n
	c.Unset &^= key
}

// haproxyCheck returns the check that a section describes.
func haproxyCheck(v *virtual, s *section) *haproxyProbe {
	health := sources.DefaultHealthCheck()
	health.OnAllDown = sources.AllDownClosed
	health.Unset &^= sources.HealthOnAllDown
	health.Probe.Type = sources.CheckTCP
	c := &haproxyProbe{HealthCheck: health, expects: map[string]bool{}}
	checked := isChecked(s)
	for i := range s.lines {
		l := &s.lines[i]
		switch l.words[0] {
		case "http-check", "tcp-check":
			c.rule(v, l)
		case "external-check":
			v.note(l.at, "%s: the check only connects; see healthCheck type exec", title(l))
		case "timeout":
			d, err := haproxyTime(l.value(2), time.Millisecond)
			switch {
			case l.value(1) == "connect" && err == nil:
				c.connect = d
			case l.value(1) != "check":
			case err != nil:
				v.note(l.at, "%s: %v", title(l), err)
			default:
				c.answer = d
			}
		case "option":
			if isCheckOption(l.value(1)) {
				c.option(v, l)
				if !checked {
					v.note(l.at, "%s: no server has the option check", title(l))
				}
			}
		case "no":
			if isCheckOption(l.value(2)) {
				c.Probe, c.hello = sources.Probe{Type: sources.CheckTCP}, false
			}
		}
	}
	c.consistent(v, s)
	return c
}

// consistent removes what rules of another type of check have set. HAProxy ignores these rules.
func (c *haproxyProbe) consistent(v *virtual, s *section) {
	p := &c.Probe
	other := map[string]bool{"http-check": p.Type != sources.CheckHTTP && p.Type != sources.CheckHTTPS, "tcp-check": p.Type != sources.CheckTCP && p.Type != sources.CheckTLS}
	for i := range s.lines {
		if l := &s.lines[i]; other[l.words[0]] {
			v.note(l.at, "%s: no effect on a check of type %s", title(l), p.Type)
		}
	}
	if other["http-check"] {
		p.Method, p.Path, p.Host, p.Headers, p.ExpectStatus, p.ExpectBody = "", "", "", "", "", ""
	}
	if other["tcp-check"] || p.Type == sources.CheckTLS {
		p.Send, p.Expect = "", ""
	}
}

// isChecked reports whether a server of a section is checked.
func isChecked(s *section) bool {
	return slices.ContainsFunc(s.lines, func(l statement) bool {
		return strings.HasSuffix(l.words[0], "server") && slices.Contains(l.words, "check")
	})
}

func isCheckOption(name string) bool {
	return strings.HasSuffix(name, "-check") || strings.HasSuffix(name, "-chk") || name == "httpchk" || name == "smtpchk"
}

// option reads "option CHECK". The last one of a section counts.
func (c *haproxyProbe) option(v *virtual, l *statement) {
	p := &c.Probe
	c.hello = l.value(1) == "ssl-hello-chk"
	switch l.value(1) {
	case "tcp-check":
		p.Type = sources.CheckTCP
	case "httpchk":
		c.http(v, l)
	case "ssl-hello-chk":
		p.Type = sources.CheckTLS
	case "redis-check":
		p.Type, p.Send, p.Expect = sources.CheckTCP, "PING\r\n", "+PONG"
	case "smtpchk":
		p.Type, p.Expect = sources.CheckTCP, "220"
		v.note(l.at, "%s: the check waits for the greeting 220 and sends nothing", title(l))
	default:
		p.Type = sources.CheckTCP
		v.note(l.at, "%s: the check only connects", title(l))
	}
}

// http reads "option httpchk [METHOD] URI [VERSION]". Headers used to stand behind the version, with line breaks.
func (c *haproxyProbe) http(v *virtual, l *statement) {
	p := &c.Probe
	p.Type, p.Method, p.Path, p.ExpectStatus = sources.CheckHTTP, "OPTIONS", "/", "200-399"
	words := l.words[2:]
	switch {
	case len(words) == 1:
		p.Path = words[0]
	case len(words) > 1:
		p.Method, p.Path = words[0], words[1]
	}
	if len(words) < 3 {
		return
	}
	_, headers, _ := strings.Cut(strings.Join(words[2:], " "), "\r\n")
	for header := range strings.SplitSeq(headers, "\r\n") {
		if name, value, ok := strings.Cut(header, ":"); ok {
			c.header(name, strings.TrimSpace(value))
		} else if header != "" {
			v.note(l.at, "a header of option httpchk: want NAME: VALUE")
		}
	}
}

// header adds a header to the request of a check.
func (c *haproxyProbe) header(name, value string) {
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

// rule reads a rule of a check. A check sends once and expects once.
func (c *haproxyProbe) rule(v *virtual, l *statement) {
	p := &c.Probe
	rest := l.words[min(2, len(l.words)):]
	http := l.words[0] == "http-check"
	switch what := l.value(1); {
	case what == "comment" || what == "connect" && len(rest) == 0:
	case http && what == "send":
		c.request(v, l, rest)
	case what == "expect" && c.expects[l.words[0]] || what != "expect" && !http && c.expects[l.words[0]]:
		v.note(l.at, "%s: svcproxy's check has no further steps", title(l))
	case what == "expect" && c.expect(http, rest):
		c.expects[l.words[0]] = true
	case what == "expect":
		v.noteChange(l.at, "%s: svcproxy's check has no such rule, so a server counts as up whatever it answers", title(l))
	case !http && what == "send" && len(rest) > 0:
		p.Send += rest[0]
		if len(rest) > 1 && rest[1] != "comment" {
			v.note(l.at, "%s: it has words that were not expected here", title(l))
		}
	case !http && what == "send-binary" && len(rest) > 0:
		var data string
		if err := hexOf(rest[0], &data); err != nil {
			v.note(l.at, "%s: %v", title(l), err)
		}
		p.Send += data
	case what == "connect" && slices.Equal(rest, []string{"ssl"}):
		c.overTLS(v, l)
	case what == "connect" && len(rest) == 2 && rest[0] == "port" && portOf(rest[1], &p.Port) == nil:
	default:
		v.note(l.at, "%s: svcproxy's check has no such rule", title(l))
	}
}

// expect takes what a check expects, and reports whether it could. Which statuses a pattern matches can be tried.
func (c *haproxyProbe) expect(http bool, words []string) bool {
	p := &c.Probe
	not := len(words) > 0 && words[0] == "!"
	if not {
		words = words[1:]
	}
	if len(words) < 2 || len(words) > 2 && words[2] != "comment" {
		return false
	}
	kind, value := words[0], words[1]
	to := &p.Expect
	if http {
		to = &p.ExpectBody
	}
	switch {
	case http && kind == "status" && !not:
		p.ExpectStatus = value
	case http && (kind == "status" || kind == "rstatus"):
		p.ExpectStatus = statuses(kind, value, not)
		return p.ExpectStatus != ""
	case not:
		return false
	case kind == "string":
		*to = value
	case kind == "rstring":
		text, ok := literal(value)
		if ok {
			*to = text
		}
		return ok
	case !http && kind == "binary":
		return hexOf(value, to) == nil
	default:
		return false
	}
	return true
}

// statuses returns the statuses that a list or a pattern matches, or does not match, as a list of ranges.
func statuses(kind, value string, not bool) string {
	if kind == "status" {
		value = "^(?:" + strings.NewReplacer(",", "|").Replace(value) + ")$"
		if strings.Contains(value, "-") {
			return ""
		}
	}
	re, err := regexp.Compile(value)
	if err != nil {
		return ""
	}
	var list []string
	first := 0
	for code := 100; code <= 600; code++ {
		good := code < 600 && re.MatchString(strconv.Itoa(code)) != not
		switch {
		case good && first == 0:
			first = code
		case !good && first == code-1:
			list, first = append(list, strconv.Itoa(first)), 0
		case !good && first > 0:
			list, first = append(list, fmt.Sprintf("%d-%d", first, code-1)), 0
		}
	}
	return strings.Join(list, ",")
}

// request reads "http-check send [meth METHOD] [uri URI] [ver VERSION] [hdr NAME VALUE]...".
func (c *haproxyProbe) request(v *virtual, l *statement, words []string) {
	for i := 0; i < len(words); i++ {
		value := func(n int) string {
			if i+n < len(words) {
				return words[i+n]
			}
			return ""
		}
		switch words[i] {
		case "meth":
			c.Probe.Method = value(1)
		case "uri":
			c.Probe.Path = value(1)
		case "ver", "comment":
		case "hdr":
			c.header(value(1), value(2))
			i++
		default:
			v.note(l.at, "http-check send: svcproxy does not have %s", plain(words[i]))
		}
		i++
	}
}

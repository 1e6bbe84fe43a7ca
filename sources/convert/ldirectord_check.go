package convert

import (
	"strconv"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// ldirectordCheck is what a virtual says of its check.
type ldirectordCheck struct {
	kind, service, request, receive, command string
	at                                       sources.Origin // of what kind of check it is
	requestAt, receiveAt                     sources.Origin
	differs                                  bool // a real server has a request of its own
}

func (c *ldirectordCheck) set(at sources.Origin, key, value string) {
	switch key {
	case "checktype":
		c.kind, c.at = value, at
	case "service":
		c.service, c.at = value, at
	case "request":
		c.request, c.requestAt = value, at
	case "receive":
		c.receive, c.receiveAt = value, at
	case "checkcommand":
		c.command = value
	}
}

// ldirectordHealth is a check with ldirectord's defaults: it removes a real server that is down, and serves none if
// all are.
func ldirectordHealth() sources.HealthCheck {
	c := sources.DefaultHealthCheck()
	c.Interval, c.FastInterval, c.DownInterval, c.Fall, c.Rise = 10*time.Second, 10*time.Second, 10*time.Second, 1, 1
	c.OnDown, c.OnAllDown = sources.DownCut, sources.AllDownClosed
	c.Unset &^= sources.HealthInterval | sources.HealthFastInterval | sources.HealthDownInterval | sources.HealthFall |
		sources.HealthRise | sources.HealthOnDown | sources.HealthOnAllDown | sources.HealthTimeout
	return c
}

// healthCheck makes the check of a virtual's real servers; nil if there is none.
func (l *ldirectord) healthCheck(v *virtual) *sources.HealthCheck {
	c, own := l.own.check, l.check
	given := c.Probe // what checkWords set
	c.Probe = sources.Probe{Port: given.Port}
	switch _, err := strconv.Atoi(own.kind); {
	case own.kind == "on":
		return nil
	case own.kind == "off":
		v.note(own.at, "checktype off: ldirectord adds no real server of it, so none is ready here")
		for i := range v.reals {
			v.reals[i].notReady = true
		}
		return nil
	case own.kind == "ping" || own.kind == "connect" && v.protocol == sources.UDP: // as ldirectord does
		c.Probe = sources.Probe{Type: sources.CheckPing}
	case own.kind == "connect":
		c.Probe.Type = sources.CheckTCP
	case own.kind == "negotiate" || err == nil:
		l.negotiate(v, &c.Probe, given)
	default:
		v.noteChange(own.at, "checktype: svcproxy does not have this one, so the endpoints are not checked; "+
			"see healthCheck type exec")
		return nil
	}
	if c.Probe.Type == "" {
		return nil
	}
	c.Probe.Timeout = l.own.timeout(own.kind)
	return &c
}

// timeout is that of a kind of check. Each of the two timeouts is the other one's default.
func (t *ldirectordTuning) timeout(kind string) time.Duration {
	negotiates := kind != "connect" && kind != "ping"
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

// serviceOf is the service that ldirectord takes for a port.
var serviceOf = map[uint16]string{
	21: "ftp", 25: "smtp", 53: "dns", 80: "http", 110: "pop", 119: "nntp", 143: "imap", 389: "ldap", 443: "https",
	587: "submission", 636: "ldaps", 993: "imaps", 995: "pops", 1521: "oracle", 1812: "radius", 3128: "http_proxy",
	3306: "mysql", 5060: "sip", 5432: "pgsql",
}

// negotiate is a check that speaks the protocol of the service, which may follow from the port. given has the host,
// method and port of the check. The check of a service that svcproxy does not speak only connects.
func (l *ldirectord) negotiate(v *virtual, p *sources.Probe, given sources.Probe) {
	c, service := l.check, l.check.service
	if service == "" {
		service = serviceOf[v.addr.Port()]
	}
	switch {
	case service == "" || service == "none":
		v.note(c.at, "service none: ldirectord checks nothing, so the endpoints are not checked")
	case c.differs:
		p.Type = sources.CheckTCP
	case service == "http" || service == "https":
		if strings.Contains(c.request, "://") {
			v.noteChange(c.requestAt, "request: a check asks the endpoint itself, for /")
			c.request = ""
		}
		p.Type = map[string]sources.CheckType{"http": sources.CheckHTTP, "https": sources.CheckHTTPS}[service]
		p.Path = "/" + strings.ReplaceAll(strings.TrimPrefix(c.request, "/"), " ", "%20")
		p.Host, p.ExpectBody = given.Host, c.literal(v)
		if p.Method = "GET"; given.Method == "HEAD" && p.ExpectBody == "" {
			p.Method = "HEAD"
		}
	case service == "dns":
		p.Type, p.Query, p.RecordType, p.Expect = sources.CheckDNS, strings.Trim(c.request, "/"), "A", c.literal(v)
		if p.Query == "" {
			p.Query = "."
		}
	case service == "simpletcp":
		p.Type, p.Send, p.Expect = sources.CheckTCP, strings.ReplaceAll(c.request, `\n`, "\n"), c.literal(v)
	default:
		if p.Type = sources.CheckTCP; v.protocol == sources.UDP {
			*p = sources.Probe{Type: sources.CheckPing}
		}
		v.noteChange(c.at, "service: svcproxy does not speak this one, so the check only connects, or pings for UDP")
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

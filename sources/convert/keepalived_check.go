package convert

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// checkers are the names of keepalived's checks.
var checkers = []string{
	"TCP_CHECK", "HTTP_GET", "SSL_GET", "SMTP_CHECK", "DNS_CHECK", "MISC_CHECK", "UDP_CHECK", "PING_CHECK", "FILE_CHECK", "BFD_CHECK",
}

// checkDraft is the check of a virtual server while its real servers are read. In keepalived each real
// server has checks of its own; here the service has one, which an endpoint may be left out of.
type checkDraft struct {
	common []*statement // the block of the virtual server, which has defaults
	checks []serverCheck
}

type serverCheck struct {
	real  int
	at    sources.Origin
	check *sources.HealthCheck // nil = not checked
}

// add reads the check of a real server.
func (d *checkDraft) add(v *virtual, s *statement, index int) {
	var found *statement
	for _, b := range s.block {
		if !slices.Contains(checkers, b.words[0]) {
			continue
		}
		if found != nil {
			v.noteChange(b.at, "%s beside %s: a service has one check", b.words[0], found.words[0])
			continue
		}
		found = b
	}
	c := serverCheck{real: index, at: s.at}
	if found != nil {
		c.at = found.at
		c.check = d.read(v, s, found)
	}
	d.checks = append(d.checks, c)
}

// finish gives the virtual server the check that most of its real servers have.
func (d *checkDraft) finish(v *virtual) {
	counts, most := map[sources.HealthCheck]int{}, 0
	for _, c := range d.checks {
		if c.check == nil {
			continue
		}
		if counts[*c.check]++; counts[*c.check] > most {
			most, v.check = counts[*c.check], c.check
		}
	}
	if v.check == nil {
		return
	}
	for _, c := range d.checks {
		switch {
		case c.real >= len(v.reals):
		case c.check == nil:
			v.reals[c.real].unchecked = true
		case *c.check != *v.check:
			v.noteChange(c.at, "the check of %s differs from that of the others, which it gets, too", v.reals[c.real].addr)
		}
	}
	for i := range v.reals {
		if v.reals[i].backup {
			v.reals[i].unchecked = true // keepalived does not check a sorry server
		}
	}
}

// read makes a health check of a check of keepalived; nil if there is none like it.
func (d *checkDraft) read(v *virtual, server, check *statement) *sources.HealthCheck {
	c := sources.DefaultHealthCheck()
	// What keepalived does when checks fail: it removes the real server, and serves none if all fail.
	c.OnDown, c.OnAllDown = sources.DownCut, sources.AllDownClosed
	c.Unset &^= sources.HealthOnDown | sources.HealthOnAllDown
	if !d.kind(v, &c, check) {
		return nil
	}
	for _, block := range [][]*statement{d.common, server.block, check.block} {
		for _, b := range block {
			if err := checkTiming(&c, b); err != nil {
				v.note(b.at, "%s: %v", word(b), err)
			}
		}
	}
	return &c
}

// checkTiming takes the keys that a virtual server, a real server and a check may have.
func checkTiming(c *sources.HealthCheck, b *statement) error {
	duration := func(key sources.HealthKeys, to *time.Duration) error {
		t, err := seconds(b.value(1))
		if err == nil && t > 0 {
			*to = t
			c.Unset &^= key
		}
		return err
	}
	switch b.words[0] {
	case "delay_loop":
		return duration(sources.HealthInterval, &c.Interval)
	case "delay_before_retry":
		return duration(sources.HealthFastInterval, &c.FastInterval)
	case "connect_timeout", "misc_timeout":
		return duration(sources.HealthTimeout, &c.Probe.Timeout)
	case "retry", "nb_get_retry":
		n, err := strconv.Atoi(b.value(1))
		if err != nil || n < 0 || n > 999 {
			return fmt.Errorf("want a number of tries")
		}
		c.Fall = n + 1
		c.Unset &^= sources.HealthFall
	case "inhibit_on_failure":
		c.OnDown = sources.DownDrain
	case "alpha":
		c.Initial = sources.InitialDown
	case "virtualhost":
		if t := c.Probe.Type; t == sources.CheckHTTP || t == sources.CheckHTTPS {
			c.Probe.Host = b.value(1)
		}
	}
	return nil
}

// kind sets what a probe does.
func (d *checkDraft) kind(v *virtual, c *sources.HealthCheck, check *statement) bool {
	p := &c.Probe
	switch check.words[0] {
	case "TCP_CHECK":
		p.Type = sources.CheckTCP
	case "SMTP_CHECK":
		p.Type, p.Expect = sources.CheckTCP, "220"
		v.note(check.at, "SMTP_CHECK: only the greeting 220 is checked")
	case "HTTP_GET", "SSL_GET":
		p.Type, p.Method, p.Path, p.ExpectStatus = sources.CheckHTTP, "GET", "/", "200-299"
		if check.words[0] == "SSL_GET" {
			p.Type = sources.CheckHTTPS
		}
	case "DNS_CHECK":
		p.Type, p.Query, p.RecordType = sources.CheckDNS, ".", "SOA"
	case "UDP_CHECK":
		p.Type = sources.CheckUDP
	case "PING_CHECK":
		p.Type = sources.CheckPing
	case "MISC_CHECK":
		p.Type = sources.CheckExec
	default:
		v.noteChange(check.at, "%s: svcproxy does not have it, so the endpoint is not checked", check.words[0])
		return false
	}
	urls := 0
	for _, b := range check.block {
		if b.words[0] == "url" {
			if urls++; urls > 1 {
				v.note(b.at, "a second url: one is checked")
				continue
			}
		}
		d.key(v, p, b)
	}
	if p.Type == sources.CheckExec && p.Command == "" {
		v.noteChange(check.at, "MISC_CHECK: its program is not an absolute path, so the endpoint is not checked")
		return false
	}
	return true
}

// key takes a key of a check.
func (d *checkDraft) key(v *virtual, p *sources.Probe, b *statement) {
	var err error
	switch b.words[0] {
	case "connect_port":
		err = portOf(b.value(1), &p.Port)
	case "bindto":
		p.Source, err = netip.ParseAddr(b.value(1))
	case "bind_if":
		p.Interface = b.value(1)
	case "fwmark":
		var n uint64
		n, err = strconv.ParseUint(b.value(1), 0, 32)
		p.Mark = uint32(n)
	case "url":
		for _, u := range b.block {
			urlKey(v, p, u)
		}
	case "path", "status_code", "digest", "regex":
		urlKey(v, p, b)
	case "type":
		p.RecordType = strings.ToUpper(b.value(1))
	case "name":
		p.Query = b.value(1)
	case "payload", "require_reply":
		var text []byte
		if text, err = hex.DecodeString(strings.Join(b.words[1:], "")); err == nil && b.words[0] == "payload" {
			p.Send = string(text)
		} else if err == nil {
			p.Expect = string(text)
		}
	case "misc_path":
		program(p, b.words[1:])
	case "connect_ip", "bind_port", "user", "misc_dynamic", "min_reply_length", "max_reply_length", "enable_sni", "http_protocol", "tls_compliant", "helo_name", "host", "regex_options", "regex_no_match":
		v.note(b.at, "%s of a check: svcproxy does not have it", b.words[0])
	case "delay_loop", "retry", "nb_get_retry", "delay_before_retry", "warmup", "connect_timeout", "misc_timeout", "virtualhost", "alpha", "log_all_failures":
	default:
		v.note(b.at, "%s of a check: not known here", b.words[0])
	}
	if err != nil {
		v.note(b.at, "%s: %v", word(b), err)
	}
}

func portOf(text string, to *uint16) error {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return fmt.Errorf("want a port")
	}
	*to = uint16(n)
	return nil
}

// urlKey takes a key of the block url of HTTP_GET.
func urlKey(v *virtual, p *sources.Probe, b *statement) {
	switch b.words[0] {
	case "path":
		if p.Path = b.value(1); !strings.HasPrefix(p.Path, "/") {
			p.Path = "/" + p.Path
		}
	case "status_code":
		var codes []string
		for _, w := range b.words[1:] {
			codes = append(codes, strings.Split(w, ",")...)
		}
		slices.Sort(codes)
		p.ExpectStatus = strings.Join(slices.Compact(codes), ",")
	case "virtualhost":
		p.Host = b.value(1)
	case "digest", "regex":
		v.note(b.at, "%s of a check: svcproxy compares no digests and no patterns; expectBody looks for a text", b.words[0])
	default:
		v.note(b.at, "%s of a check: not known here", b.words[0])
	}
}

// program splits the command line of a check. No shell reads it.
func program(p *sources.Probe, words []string) {
	fields := strings.Fields(strings.Join(words, " "))
	if len(fields) == 0 || !strings.HasPrefix(fields[0], "/") {
		return
	}
	p.Command, p.Args = fields[0], strings.Join(fields[1:], "\x00")
}

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
	keepalivedTiming(&c, check.words[0])
	if !d.kind(v, &c, check) {
		return nil
	}
	host := c.Probe.Host // of a url, which overrides the others
	for _, block := range [][]*statement{d.common, server.block, check.block} {
		for _, b := range block {
			if err := checkTiming(&c, b); err != nil {
				v.note(b.at, "%s: %v", word(b), err)
			}
		}
	}
	if host != "" {
		c.Probe.Host = host
	}
	c.DownInterval = c.Interval
	if check.words[0] == "MISC_CHECK" && c.Probe.Timeout == 0 {
		c.Probe.Timeout = c.Interval
	}
	if check.words[0] == "DNS_CHECK" && c.FastInterval == 0 {
		c.FastInterval = c.Interval
	}
	return &c
}

// keepalivedTiming sets keepalived's defaults. A single success brings a real server back.
func keepalivedTiming(c *sources.HealthCheck, kind string) {
	c.Interval, c.FastInterval, c.Probe.Timeout, c.Fall, c.Rise = time.Minute, time.Second, 5*time.Second, 2, 1
	c.Unset &^= sources.HealthInterval | sources.HealthFastInterval | sources.HealthTimeout | sources.HealthFall | sources.HealthRise | sources.HealthDownInterval
	switch kind {
	case "HTTP_GET", "SSL_GET":
		c.FastInterval = 3 * time.Second
	case "DNS_CHECK":
		c.FastInterval, c.Fall = 0, 4 // 0: delay_loop
	case "MISC_CHECK":
		c.Probe.Timeout, c.Fall = 0, 1 // 0: delay_loop
	}
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
	case "connect_timeout":
		if c.Probe.Type == sources.CheckExec {
			return nil // MISC_CHECK has misc_timeout
		}
		return duration(sources.HealthTimeout, &c.Probe.Timeout)
	case "misc_timeout":
		return duration(sources.HealthTimeout, &c.Probe.Timeout)
	case "retry", "nb_get_retry":
		n, err := strconv.Atoi(b.value(1))
		if err != nil || n < 0 || n > 999 {
			return fmt.Errorf("want a number of tries")
		}
		c.Fall = n + 1
		c.Unset &^= sources.HealthFall
	case "inhibit_on_failure":
		c.OnDown = map[bool]sources.OnDown{true: sources.DownDrain, false: sources.DownCut}[on(b)]
	case "alpha":
		c.Initial = map[bool]sources.Initial{true: sources.InitialDown, false: sources.InitialKernel}[on(b)]
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
	urls, dynamic := 0, false
	for _, b := range check.block {
		v.extra(b)
		dynamic = dynamic || b.words[0] == "misc_dynamic"
		if b.words[0] == "url" {
			if urls++; urls > 1 {
				v.noteChange(b.at, "a second url: only the first one is checked")
				continue
			}
		}
		d.key(v, p, b)
	}
	if p.Type == sources.CheckExec && p.Command == "" {
		v.noteChange(check.at, "MISC_CHECK: its program is not an absolute path, so the endpoint is not checked")
		return false
	}
	if p.Type == sources.CheckExec && !dynamic {
		v.failUnlessZero(check.at, "MISC_CHECK", p)
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
		if p.Source, err = netip.ParseAddr(b.value(1)); err != nil {
			err = fmt.Errorf("want an address")
		}
	case "bind_if":
		p.Interface = b.value(1)
	case "fwmark":
		var n uint64
		n, err = strconv.ParseUint(b.value(1), 0, 32)
		p.Mark = uint32(n)
	case "url":
		for _, u := range b.block {
			v.extra(u)
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
		if text, err = hex.DecodeString(strings.Join(b.words[1:], "")); err != nil {
			err = fmt.Errorf("want bytes in hex, two digits each, so any answer will do")
		} else if b.words[0] == "payload" {
			p.Send = string(text)
		} else {
			p.Expect = string(text)
		}
	case "misc_path":
		program(p, b.words[1:])
	case "sni_name":
		p.ServerName = b.value(1)
	case "enable_sni": // a TLS check names the host of the request anyway
	case "misc_dynamic":
		v.noteChange(b.at, "misc_dynamic: exit status n from 2 to 255 gives n-2 %% of the configured weight, in keepalived the weight n-2")
	case "connect_ip":
		v.noteChange(b.at, "%s of a check: svcproxy does not have it", b.words[0])
	case "bind_port", "user", "min_reply_length", "max_reply_length", "http_protocol", "tls_compliant", "fast_recovery", "helo_name", "host", "regex_options", "regex_no_match", "warmup", "log_all_failures":
		v.note(b.at, "%s of a check: svcproxy does not have it", b.words[0])
	case "delay_loop", "retry", "nb_get_retry", "delay_before_retry", "connect_timeout", "misc_timeout", "virtualhost", "alpha":
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
	case "regex_options", "regex_no_match", "regex_stack", "regex_min_offset", "regex_max_offset", "tls_compliant":
		v.note(b.at, "%s of a check: svcproxy does not have it", b.words[0])
	case "digest", "regex":
		v.noteChange(b.at, "%s of a check: svcproxy compares no digests and no patterns; expectBody looks for a text", b.words[0])
	default:
		v.note(b.at, "%s of a check: not known here", b.words[0])
	}
}

// program splits the command line of a check. No shell reads it.
func program(p *sources.Probe, words []string) {
	fields := commandWords(strings.Join(words, " "))
	if len(fields) == 0 || !strings.HasPrefix(fields[0], "/") {
		return
	}
	p.Command, p.Args = fields[0], strings.Join(fields[1:], "\x00")
}

// failUnlessZero lets a shell run a check's program. An exec check takes exit status 2 to 255 for a weight; keepalived
// and ldirectord take every status but 0 for a failure, such as 7 of curl. The shell puts more words behind the
// program's arguments: variables of an exec check.
func (v *virtual) failUnlessZero(at sources.Origin, what string, p *sources.Probe, more ...string) {
	run := strings.Join(append([]string{`"$@"`}, more...), " ")
	args := []string{"-c", run + " || exit 1", "sh", p.Command}
	if p.Args != "" {
		args = append(args, p.Args)
	}
	p.Command, p.Args = "/bin/sh", strings.Join(args, "\x00")
	v.note(at, "%s: /bin/sh runs the program, as exit status 2 to 255 would mean up; a program that user svcproxy cannot run counts as a failure, and whether only root can write it is not checked", what)
}

// commandWords splits a command line at blanks. Those within quotes stay.
func commandWords(line string) []string {
	var words []string
	var b strings.Builder
	in, quote := false, rune(0)
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			in, quote = true, r
		case quote == 0 && (r == ' ' || r == '\t'):
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
	if in {
		words = append(words, b.String())
	}
	return words
}

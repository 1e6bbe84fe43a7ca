package convert

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"path"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// checkers are the names of keepalived's checks.
var checkers = []string{
	"TCP_CHECK", "HTTP_GET", "SSL_GET", "SMTP_CHECK", "DNS_CHECK", "MISC_CHECK", "UDP_CHECK", "PING_CHECK", "FILE_CHECK",
	"BFD_CHECK",
}

// keepalivedCheck reads the check of a real server. common is what the virtual server itself has, such as defaults.
func (v *virtual) keepalivedCheck(r *real, common []*statement, s *statement) {
	var found *statement
	for _, b := range s.block {
		switch {
		case !slices.Contains(checkers, b.words[0]):
		case found == nil:
			found = b
		default:
			v.noteChange(b.at, "%s beside %s: a service has one check", b.words[0], found.words[0])
		}
	}
	if found == nil {
		return
	}
	r.checkAt = found.at
	c := sources.DefaultHealthCheck()
	// What keepalived does when checks fail: it removes the real server, and serves none if all fail.
	c.OnDown, c.OnAllDown = sources.DownCut, sources.AllDownClosed
	c.Unset &^= sources.HealthOnDown | sources.HealthOnAllDown
	keepalivedTiming(&c, found.words[0])
	if !v.keepalivedProbe(r, &c, found) {
		return
	}
	host := c.Probe.Host // of a url, which overrides the others
	for _, block := range [][]*statement{common, s.block, found.block} {
		for _, b := range block {
			if err := checkTiming(&c, b); err != nil {
				v.note(b.at, "%s: %v", title(b), err)
			}
		}
	}
	if host != "" {
		c.Probe.Host = host
	}
	c.DownInterval = c.Interval
	if found.words[0] == "MISC_CHECK" && c.Probe.Timeout == 0 {
		c.Probe.Timeout = c.Interval
	}
	if found.words[0] == "DNS_CHECK" && c.FastInterval == 0 {
		c.FastInterval = c.Interval
	}
	r.check = &c
}

// keepalivedTiming sets keepalived's defaults. A single success brings a real server back.
func keepalivedTiming(c *sources.HealthCheck, kind string) {
	c.Interval, c.FastInterval, c.Probe.Timeout, c.Fall, c.Rise = time.Minute, time.Second, 5*time.Second, 2, 1
	c.Unset &^= sources.HealthInterval | sources.HealthFastInterval | sources.HealthTimeout | sources.HealthFall |
		sources.HealthRise | sources.HealthDownInterval
	switch kind {
	case "HTTP_GET", "SSL_GET":
		c.FastInterval = 3 * time.Second
	case "DNS_CHECK":
		c.FastInterval, c.Fall = 0, 4 // 0: delay_loop
	case "MISC_CHECK":
		c.Probe.Timeout, c.Fall = 0, 1 // 0: delay_loop
	}
}

// timingWords are words of checks that a virtual server and a real server may have, too.
var timingWords = []string{
	"delay_loop", "retry", "nb_get_retry", "delay_before_retry", "connect_timeout", "misc_timeout",
}

// checkTiming takes what a virtual server, a real server and a check may have.
func checkTiming(c *sources.HealthCheck, b *statement) error {
	switch word := b.words[0]; word {
	case "inhibit_on_failure":
		c.OnDown = map[bool]sources.OnDown{true: sources.DownDrain, false: sources.DownCut}[on(b)]
	case "alpha":
		c.Initial = map[bool]sources.Initial{true: sources.InitialDown, false: sources.InitialKernel}[on(b)]
	case "virtualhost":
		if t := c.Probe.Type; t == sources.CheckHTTP || t == sources.CheckHTTPS {
			c.Probe.Host = b.value(1)
		}
	default:
		own := word != "connect_timeout" || c.Probe.Type != sources.CheckExec // MISC_CHECK has misc_timeout
		if own && slices.Contains(timingWords, word) {
			return checkWords[Keepalived][word](c, b.value(1))
		}
	}
	return nil
}

// keepalivedProbes are what keepalived's checks ask.
var keepalivedProbes = map[string]sources.Probe{
	"TCP_CHECK":  {Type: sources.CheckTCP},
	"SMTP_CHECK": {Type: sources.CheckTCP, Expect: "220"},
	"HTTP_GET":   {Type: sources.CheckHTTP, Method: "GET", Path: "/", ExpectStatus: "200-299"},
	"SSL_GET":    {Type: sources.CheckHTTPS, Method: "GET", Path: "/", ExpectStatus: "200-299"},
	"DNS_CHECK":  {Type: sources.CheckDNS, Query: ".", RecordType: "SOA"},
	"UDP_CHECK":  {Type: sources.CheckUDP},
	"PING_CHECK": {Type: sources.CheckPing},
	"MISC_CHECK": {Type: sources.CheckExec, OnlyZero: true},
}

// keepalivedProbe sets what a probe asks. It returns false if svcproxy cannot ask it: the real server is then
// not checked.
func (v *virtual) keepalivedProbe(r *real, c *sources.HealthCheck, check *statement) bool {
	timeout := c.Probe.Timeout
	c.Probe = keepalivedProbes[check.words[0]]
	c.Probe.Timeout = timeout
	p := &c.Probe
	switch {
	case p.Type == "":
		v.noteChange(check.at, "%s: svcproxy does not have it, so the endpoint is not checked", check.words[0])
		return false
	case check.words[0] == "SMTP_CHECK":
		v.note(check.at, "SMTP_CHECK: only the greeting 220 is checked")
	}
	block := check.block
	seen := map[string]bool{}
	for i := 0; i < len(block); i++ {
		b := block[i]
		v.extra(b)
		if first := b.words[0]; (first == "url" || first == "host") && len(b.block) > 0 {
			if seen[first] {
				v.noteChange(b.at, "a second %s: only the first one is checked", first)
				continue
			}
			if seen[first] = true; first == "host" { // of SMTP_CHECK: where to connect to
				block = slices.Concat(block, b.block)
				continue
			}
		}
		v.keepalivedKey(c, b)
		if ip, err := netip.ParseAddr(b.value(1)); b.words[0] == "connect_ip" && (err != nil || ip != r.addr.Addr()) {
			v.noteChange(b.at, "connect_ip of a check: svcproxy checks no other address than the endpoint's, so the endpoint "+
				"is not checked")
			return false
		}
	}
	if p.Port == r.addr.Port() && v.mark == 0 {
		p.Port = 0 // the endpoint's own, as for endpoints that do not say it
	}
	if p.Type == sources.CheckExec && p.Command == "" {
		v.noteChange(check.at, "MISC_CHECK: its program is not an absolute path, so the endpoint is not checked")
		return false
	}
	v.programPlace(check.at, p)
	return true
}

// lostKeys are the keys of checks that svcproxy has no counterpart for.
var lostKeys = []string{
	"bind_port", "user", "min_reply_length", "max_reply_length", "http_protocol", "tls_compliant", "fast_recovery",
	"helo_name", "host",
	"regex_options", "regex_no_match", "regex_stack", "regex_min_offset", "regex_max_offset", "warmup", "log_all_failures",
}

// keepalivedKey takes a key of a check or of its url.
func (v *virtual) keepalivedKey(c *sources.HealthCheck, b *statement) {
	p := &c.Probe
	switch name := b.words[0]; name {
	case "url":
		for _, u := range b.block {
			v.extra(u)
			v.keepalivedKey(c, u)
			if u.words[0] == "virtualhost" {
				p.Host = u.value(1)
			}
		}
	case "digest":
		v.noteChange(b.at, "digest of a check: svcproxy compares no digests; expectBody looks for a text")
	case "regex":
		if text, ok := literal(strings.Join(b.words[1:], " ")); ok {
			p.ExpectBody = text
		} else {
			v.noteChange(b.at, "regex of a check: svcproxy compares no patterns, so any body will do; expectBody looks for a "+
				"text")
		}
	case "misc_path":
		program(p, b.words[1:])
	case "misc_dynamic":
		p.OnlyZero = false
		v.noteChange(b.at, "misc_dynamic: exit status n from 2 to 255 gives n-2 %% of the configured weight, in keepalived "+
			"the weight n-2")
	case "enable_sni": // a TLS check names the host of the request anyway
	case "connect_ip", "virtualhost", "alpha": // taken elsewhere
	default:
		take, known := checkWords[Keepalived][name]
		switch {
		case slices.Contains(timingWords, name):
		case known:
			value := b.value(1)
			if slices.Contains(manyWords, name) {
				value = strings.Join(b.words[1:], " ")
			}
			if err := take(c, value); err != nil {
				v.note(b.at, "%s: %v", title(b), err)
			}
		case slices.Contains(lostKeys, name):
			v.note(b.at, "%s of a check: svcproxy does not have it", name)
		default:
			v.note(b.at, "%s of a check: not known here", unknown(b))
		}
	}
}

// hexOf reads bytes in hexadecimal digits.
func hexOf(text string, to *string) error {
	data, err := hex.DecodeString(text)
	if err != nil {
		return fmt.Errorf("want bytes in hex, two digits each")
	}
	*to = string(data)
	return nil
}

// literal returns the text that a pattern stands for, if it is no other pattern. An anchor at its begin is left out.
func literal(pattern string) (string, bool) {
	re, err := syntax.Parse(strings.TrimPrefix(pattern, "^"), syntax.Perl)
	if err != nil || re.Op != syntax.OpLiteral || re.Flags&syntax.FoldCase != 0 {
		return "", false
	}
	return string(re.Rune), true
}

func portOf(text string, to *uint16) error {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return fmt.Errorf("want a port")
	}
	*to = uint16(n)
	return nil
}

// program splits the command line of a check. No shell reads it.
func program(p *sources.Probe, words []string) {
	fields := commandWords(strings.Join(words, " "))
	if len(fields) == 0 || !strings.HasPrefix(fields[0], "/") {
		return
	}
	p.Command, p.Args = fields[0], strings.Join(fields[1:], "\x00")
}

// programPlace notes where the program of a check must be.
func (v *virtual) programPlace(at sources.Origin, p *sources.Probe) {
	if p.Type != sources.CheckExec || slices.Contains(sources.ExecDirs(), path.Dir(p.Command)) {
		return
	}
	v.noteChange(at, "program %s of a check: svcproxy runs programs from %s alone: copy it there and write its new "+
		"path, or add %s to health.execDirs in svcproxy.toml",
		p.Command, strings.Join(sources.ExecDirs(), " and "), path.Dir(p.Command))
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

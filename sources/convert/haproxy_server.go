package convert

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/sources"
)

// servers reads the server lines of a section.
func (v *virtual) servers(s *section, check *haproxyProbe) {
	defaults := map[string]string{}
	backups := 0
	for i := range s.lines {
		l := &s.lines[i]
		switch l.words[0] {
		case "default-server":
			v.serverOptions(l, defaults, l.words[1:])
		case "server":
			backup, err := v.server(l, defaults, check)
			if err != nil {
				v.lose(l.at, "%s: %v", title(l), err)
			}
			if !backup {
				continue
			}
			if backups++; backups == 2 && s.last("option", "allbackups") == nil {
				v.noteChange(l.at, "server %s: all backups serve when no other server is up, HAProxy uses the first only", l.value(1))
			}
		}
	}
}

// plainOptions are the options of a server that have no value.
var plainOptions = wordSet(`agent-check allow-0rtt backup check check-reuse-pool check-send-proxy check-ssl check-via-socks4 disabled enabled
force-sslv3 force-tlsv10 force-tlsv11 force-tlsv12 force-tlsv13 non-stick renegotiate send-proxy send-proxy-v2 send-proxy-v2-ssl
send-proxy-v2-ssl-cn ssl ssl-reuse stick strict-maxconn tfo tls-tickets`)

// valuedOptions are the options of a server that have a value.
var valuedOptions = wordSet(`addr agent-addr agent-inter agent-port agent-send alpn ca-file check-alpn check-pool-conn-name check-proto
check-sni ciphers ciphersuites client-sigalgs sigalgs cookie crl-file crt curves downinter error-limit fall fastinter guid hash-key id idle-ping
idle-timeout init-addr init-state inter interface ktls log-bufsize log-proto max-reuse maxconn maxqueue minconn namespace npn observe on-error
on-marked-down on-marked-up pool-conn-name pool-low-conn pool-max-conn pool-purge-delay port proto proxy-v2-options redir resolve-net
resolve-opts resolve-prefer resolvers rise shard slowstart sni socks4 source ssl-max-ver ssl-min-ver tcp-md5sig tcp-ut track usesrc verify
verifyhost weight ws`)

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(text) {
		set[word] = true
	}
	return set
}

// serverOptions reads the options of a server line into o.
func (v *virtual) serverOptions(l *statement, o map[string]string, words []string) {
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch off, negated := strings.CutPrefix(w, "no-"); {
		case w == "enabled":
			delete(o, "disabled")
		case plainOptions[w]:
			o[w] = w
		case negated && plainOptions[off]:
			delete(o, off)
		case !valuedOptions[w]:
			v.note(l.at, "a server option that is not known here")
		case i+1 == len(words):
			v.note(l.at, "server option %s: it has no value", w)
		default:
			i++
			o[w] = words[i]
		}
	}
}

// server reads "server NAME ADDRESS[:PORT] OPTIONS". It reports whether it has added a backup.
func (v *virtual) server(l *statement, defaults map[string]string, check *haproxyProbe) (backup bool, err error) {
	if len(l.words) < 3 {
		return false, fmt.Errorf("want server NAME ADDRESS:PORT")
	}
	o := maps.Clone(defaults)
	v.serverOptions(l, o, l.words[3:])
	r := real{at: l.at, weight: sources.DefaultWeight}
	if r.addr, err = serverAddress(l.value(2), v.addr.Port()); err != nil {
		return false, err
	}
	if w := o["weight"]; w != "" {
		n, err := strconv.ParseUint(w, 10, 31)
		if err != nil || n > 256 {
			return false, fmt.Errorf("weight: want a number from 0 to 256")
		}
		r.weight = uint32(n)
	}
	if err := v.haproxyLimit(l, &r, o["maxconn"]); err != nil {
		return false, err
	}
	r.backup, r.notReady = o["backup"] != "", o["disabled"] != ""
	v.lostOptions(l, o)
	if o["check"] != "" {
		r.check, r.checkAt = check.of(v, l, o, r.addr), l.at
	}
	return v.add(r) && r.backup, nil
}

// serverAddress reads ADDRESS[:PORT]. Without a port the client's counts; +N and -N are relative to it.
func serverAddress(text string, clients uint16) (netip.AddrPort, error) {
	host, port := text, ""
	if i := strings.LastIndexByte(text, ':'); i >= 0 && !strings.HasSuffix(text, "]") {
		host, port = text[:i], text[i+1:]
	}
	a, err := netip.ParseAddr(hostOf(host))
	switch {
	case strings.Contains(text, "$"):
		return netip.AddrPort{}, fmt.Errorf("svcproxy reads no environment variables: write the address")
	case strings.Contains(text, "/") || strings.Contains(text, "@") && !strings.HasPrefix(text, "ipv"):
		return netip.AddrPort{}, fmt.Errorf("svcproxy reaches servers by their addresses only")
	case err != nil || a.Zone() != "":
		return netip.AddrPort{}, fmt.Errorf("want an address: svcproxy resolves no names")
	case port == "":
		return netip.AddrPortFrom(a.Unmap(), clients), nil
	}
	n, err := strconv.Atoi(port)
	if port[0] == '+' || port[0] == '-' {
		n += int(clients)
	}
	if err != nil || n < 0 || n > 65535 {
		return netip.AddrPort{}, fmt.Errorf("port: want a number up to 65535")
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(n)), nil
}

// knownOptions have a counterpart, or need none.
var knownOptions = []string{"check", "weight", "backup", "disabled", "inter", "fastinter", "downinter", "rise", "fall", "port", "slowstart", "check-ssl", "id", "usesrc", "maxconn"}

// checkOnly are the options that concern checks.
var checkOnly = []string{"inter", "fastinter", "downinter", "rise", "fall", "port", "slowstart", "check-ssl"}

// lostOptions notes the options of a server that have no counterpart.
func (v *virtual) lostOptions(l *statement, o map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		switch {
		case name == "usesrc":
			v.hides = false
		case name == "source" && o["usesrc"] != "":
		case strings.HasPrefix(name, "send-proxy"):
			v.noteChange(l.at, "server option %s: svcproxy sends no PROXY header, and the server must not expect one", name)
		case name == "ssl":
			v.noteChange(l.at, "server option %s: svcproxy does not encrypt, the server gets what the client sends", name)
		case strings.HasPrefix(name, "agent-"):
			v.noteChange(l.at, "server option %s: not taken over; healthCheck type agent asks an agent", name)
		case name == "verify" || name == "on-marked-down" || name == "addr" && o["check"] != "":
			// of checks; see haproxyProbe
		case o["check"] == "" && slices.Contains(checkOnly, name):
			if slices.Contains(l.words, name) { // the line itself says so
				v.note(l.at, "server option %s: no effect without check", name)
			}
		case !slices.Contains(knownOptions, name):
			v.noteChange(l.at, "server option %s: svcproxy does not have it", name)
		}
	}
}

package convert

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

// servers reads the server lines of a section.
func (v *virtual) servers(s *section, check *haproxyCheck) {
	var defaults []string
	backups := 0
	for i := range s.lines {
		l := &s.lines[i]
		switch l.words[0] {
		case "default-server":
			defaults = append(defaults, l.words[1:]...)
		case "server", "server-template":
			backup, err := v.server(l, defaults, check)
			if err != nil {
				v.lose(l.at, "%s: %v", title(l), err)
			}
			if !backup {
				continue
			}
			if backups++; backups == 2 && s.last("option", "allbackups") == nil {
				v.noteChange(l.at, "server %s: all backups serve when no other server is up, HAProxy uses the first only",
					l.value(1))
			}
		}
	}
}

// serverOptions are the options of a server that import takes, and whether they have a value.
var serverOptions = map[string]bool{
	"check": false, "check-ssl": false, "ssl": false, "backup": false, "disabled": false,
	"addr": true, "weight": true, "inter": true, "fastinter": true, "downinter": true, "fall": true, "rise": true,
	"port": true, "slowstart": true, "on-marked-down": true, "verify": true, "id": true,
	"init-addr": true, "resolve-opts": true, "resolve-prefer": true, "resolvers": true,
}

// otherOptions are options that import does not take. A note may name them: what else stands on a line may be secret.
var otherOptions = wordSet(`agent-check agent-addr agent-inter agent-port agent-send allow-0rtt alpn ca-file check-alpn
check-proto check-send-proxy check-sni check-via-socks4 ciphers ciphersuites cookie crl-file crt curves error-limit
force-tlsv12 force-tlsv13 interface log-proto max-reuse maxconn maxqueue minconn namespace non-stick observe
on-error on-marked-up pool-max-conn proto proxy-v2-options redir resolve-net
send-proxy send-proxy-v2 send-proxy-v2-ssl send-proxy-v2-ssl-cn shard sni socks4 source ssl-max-ver ssl-min-ver stick
tcp-ut tfo track usesrc verifyhost ws`)

// seenByServer are those of otherOptions without which a server gets other bytes, or another client's address.
var seenByServer = wordSet("alpn proto sni socks4 source usesrc")

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(text) {
		set[word] = true
	}
	return set
}

// options reads the options of a server: those that import takes, with their values, and the names of others. An option
// that is not taken may have a value.
func (v *virtual) options(l *statement, words []string) (o map[string]string, others []string) {
	o = map[string]string{}
	value := false // the word may be the value of another option
	for i := 0; i < len(words); i++ {
		w := words[i]
		valued, taken := serverOptions[w]
		off, negated := strings.CutPrefix(w, "no-")
		mayBe := value
		value = false
		switch {
		case w == "enabled":
			delete(o, "disabled")
		case taken && valued && i+1 < len(words):
			i++
			o[w] = words[i]
		case taken && !valued:
			o[w] = w
		case negated:
			delete(o, off)
		case otherOptions[w]:
			value = true
			others = append(others, w)
		case !mayBe:
			v.note(l.at, "a server option that is not known here")
		}
	}
	return o, others
}

// isServer reports whether a line is of one server or of some by DNS name.
func isServer(l *statement) bool { return l.words[0] == "server" || l.words[0] == "server-template" }

// server reads "server NAME ADDRESS[:PORT] OPTIONS" or "server-template NAME COUNT ADDRESS[:PORT] OPTIONS". It reports
// whether it has added a backup.
func (v *virtual) server(l *statement, defaults []string, check *haproxyCheck) (backup bool, err error) {
	at, count := 2, 1
	if l.words[0] == "server-template" {
		if count, err = templateCount(l.value(2)); err != nil {
			return false, err
		}
		at = 3
	}
	if len(l.words) <= at {
		return false, fmt.Errorf("want server NAME ADDRESS:PORT")
	}
	o, others := v.options(l, slices.Concat(defaults, l.words[at+1:]))
	r := real{at: l.at, weight: sources.DefaultWeight, backup: o["backup"] != "", notReady: o["disabled"] != ""}
	if r.place, err = serverPlace(l.value(at), v.addr.Port()); err != nil {
		return false, err
	}
	if at == 3 && r.host == "" {
		return false, fmt.Errorf("want a DNS name")
	}
	r.weighted = r.srv && slices.Contains(strings.Split(o["resolve-opts"], ","), "ignore-weight")
	if w := o["weight"]; w != "" {
		n, err := strconv.ParseUint(w, 10, 31)
		if err != nil || n > 256 {
			return false, fmt.Errorf("weight: want a number from 0 to 256")
		}
		r.weight = uint32(n)
	}
	if o["ssl"] != "" {
		v.noteDanger(Server, l.at, "server option ssl: svcproxy does not encrypt, the server gets what the client sends")
	}
	if o["verify"] == "required" {
		v.note(l.at, "verify required: set verify and caFile of the health check")
	}
	if len(others) > 0 {
		danger := Feature
		if slices.ContainsFunc(others, func(o string) bool { return seenByServer[o] || strings.HasPrefix(o, "send-proxy") }) {
			danger = Server
		}
		v.noteDanger(danger, l.at, "server options %s: svcproxy does not have them", strings.Join(others, ", "))
	}
	switch a, err := netip.ParseAddr(hostOf(o["addr"])); {
	case o["check"] == "":
	case o["addr"] != "" && (err != nil || a != r.addr.Addr()):
		v.noteChange(l.at, "server option addr: svcproxy checks no other address than the endpoint's, so it is not checked")
	default:
		r.check, r.checkAt = check.of(v, l, o, r.addr.Port()), l.at
	}
	if !v.add(r) {
		return false, nil
	}
	if r.host != "" {
		v.named(l, &r, count, o, l.value(at))
	}
	return r.backup, nil
}

// serverPlace reads ADDRESS[:PORT], or a DNS name in the place of the address. Without a port the client's counts; +N
// and -N are relative to it.
func serverPlace(text string, clients uint16) (p place, err error) {
	host, port := text, ""
	if i := strings.LastIndexByte(text, ':'); i >= 0 && !strings.HasSuffix(text, "]") {
		host, port = text[:i], text[i+1:]
	}
	host = hostOf(host)
	a, err := netip.ParseAddr(host)
	if err != nil {
		if p.host, err = file.HostOf(host); err != nil {
			return place{}, fmt.Errorf("want an address, or a whole DNS name such as app.example.net")
		}
		if p.srv = p.host[0] == '_'; p.srv {
			return p, nil
		}
	}
	if a.Zone() != "" {
		return place{}, fmt.Errorf("an address has no zone here")
	}
	n := int(clients)
	if port != "" {
		n, err = strconv.Atoi(port)
	}
	if port != "" && (port[0] == '+' || port[0] == '-') {
		n += int(clients)
	}
	if err != nil || n < 0 || n > 65535 {
		return place{}, fmt.Errorf("port: want a number up to 65535")
	}
	p.addr = netip.AddrPortFrom(a.Unmap(), uint16(n))
	return p, nil
}

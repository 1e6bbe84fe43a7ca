package convert

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/sources"
)

// frontend makes virtual servers of each address that a section binds.
func (h *haproxy) frontend(s *section) error {
	servers, err := h.backend(s)
	if err != nil || servers == nil {
		return err
	}
	for i := range s.binds {
		l := &s.binds[i]
		addrs, err := bound(l.value(1))
		if err == nil && slices.Contains(l.words[2:], "ssl") {
			err = fmt.Errorf("svcproxy does not decrypt TLS")
		}
		if err != nil {
			h.leave(s, l.at, "bind: %v", err)
			continue
		}
		for j, a := range addrs {
			v := virtual{name: s.name, at: s.at, addr: a, protocol: sources.TCP, hides: true}
			v.haproxy(h, s, servers)
			if j == 0 && len(l.words) > 2 {
				v.noteChange(l.at, "bind options%s: svcproxy does not have them", namesIn(l.words[2:]))
			}
			h.virtuals = append(h.virtuals, v)
		}
	}
	if len(s.binds) == 0 {
		h.leave(s, s.at, "it binds no address")
	}
	return nil
}

// bindOptions are words behind the address of a bind.
var bindOptions = wordSet(`accept-netscaler-cip accept-proxy allow-0rtt alpn backlog ca-file ca-sign-file ciphers ciphersuites crl-file crt crt-list curves
defer-accept expose-fd force-sslv3 force-tlsv10 force-tlsv11 force-tlsv12 force-tlsv13 generate-certificates gid group id interface level maxconn mode
mss name namespace nice no-alpn no-ca-names no-tls-tickets npn prefer-client-ciphers process proto quic-force-retry shards severity-output ssl
ssl-max-ver ssl-min-ver strict-sni tcp-ut tfo thread tls-ticket-keys transparent uid user v4v6 v6only verify`)

// namesIn returns the options among words, each behind a blank.
func namesIn(words []string) string {
	var b strings.Builder
	for _, w := range words {
		if bindOptions[w] {
			b.WriteString(" " + w)
		}
	}
	return b.String()
}

// leave notes that a frontend, or a part of it, is not imported.
func (h *haproxy) leave(s *section, at sources.Origin, format string, args ...any) {
	h.notes = append(h.notes, Note{Origin: at, Message: message("%s %s: ", s.kind, s.name) + message(format, args...), Changes: true})
}

// backend returns the section with the servers of a frontend, or nil if the frontend cannot be imported.
func (h *haproxy) backend(s *section) (*section, error) {
	if off := s.disabled(); off != nil {
		h.leave(s, off.at, "it is disabled")
		return nil, nil
	}
	if !h.tcp(s) {
		return nil, nil
	}
	use := s.last("default_backend")
	if i := slices.IndexFunc(s.lines, func(l statement) bool { return l.words[0] == "use_backend" }); i >= 0 && len(s.lines[i].words) == 2 {
		use = &s.lines[i] // without a condition, before all others
	}
	if use == nil && s.kind == "listen" {
		return s, nil
	}
	if use == nil {
		h.leave(s, s.at, "it has no default_backend")
		return nil, nil
	}
	name := use.value(1)
	servers := h.sections["backend "+name]
	if servers == nil {
		servers = h.sections["listen "+name]
	}
	switch {
	case strings.Contains(name, "%[") || strings.Contains(name, "$"):
		h.leave(s, use.at, "%s: svcproxy chooses no backends", plain(use.words[0]))
		return nil, nil
	case servers == nil:
		return nil, fmt.Errorf("%s: there is no backend of that name", use.at)
	case servers.disabled() != nil:
		h.leave(s, use.at, "backend %s is disabled", name)
		return nil, nil
	}
	if h.used[servers] = true; !h.tcp(servers) {
		return nil, nil
	}
	return servers, nil
}

// tcp reports whether a proxy balances connections.
func (h *haproxy) tcp(s *section) bool {
	switch mode := s.last("mode").value(1); mode {
	case "tcp":
		return true
	case "http":
		h.leave(s, s.at, "mode http: svcproxy balances connections, not requests")
	default:
		h.leave(s, s.at, "mode %s: only mode tcp has a counterpart", mode)
	}
	return false
}

// bound reads the addresses of a bind line: ADDRESS:PORT[-PORT], several with commas.
func bound(text string) ([]netip.AddrPort, error) {
	var all []netip.AddrPort
	for one := range strings.SplitSeq(text, ",") {
		i := strings.LastIndexByte(one, ':')
		switch {
		case strings.Contains(one, "$"):
			return nil, fmt.Errorf("svcproxy reads no environment variables: write the address")
		case strings.Contains(one, "/") || strings.HasPrefix(one, "abns"):
			return nil, fmt.Errorf("svcproxy does not listen on sockets")
		case i < 0:
			return nil, fmt.Errorf("want an address and a port")
		}
		host := hostOf(one[:i])
		if slices.Contains([]string{"", "*", "0.0.0.0", "::"}, host) {
			return nil, fmt.Errorf("a service needs the addresses that it has on this node, not all")
		}
		if _, err := netip.ParseAddr(host); err != nil {
			return nil, fmt.Errorf("want an address: a service needs those that it has on this node")
		}
		addrs, err := addrsAndPorts(host, one[i+1:])
		if err != nil {
			return nil, err
		}
		for _, a := range addrs {
			if a.Addr().IsUnspecified() || a.Port() == 0 {
				return nil, fmt.Errorf("a service needs the addresses that it has on this node, and ports")
			}
		}
		all = append(all, addrs...)
	}
	return all, nil
}

// hostOf returns an address without its family and brackets.
func hostOf(text string) string {
	for _, family := range []string{"ipv4@", "ipv6@"} {
		text = strings.TrimPrefix(text, family)
	}
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		return text[1 : len(text)-1]
	}
	return text
}

// haproxy reads the lines of the sections of a virtual server.
func (v *virtual) haproxy(h *haproxy, front, servers *section) {
	check := haproxyCheck(v, servers)
	v.balance(servers)
	v.stick(h, servers)
	v.servers(servers, check)
	v.rest(h, front, servers, check)
}

// handled are the lines that are read elsewhere.
var handled = []string{
	"bind", "mode", "balance", "hash-type", "stick", "stick-table", "server", "default-server", "server-template", "default_backend",
	"http-check", "tcp-check", "external-check", "disabled", "enabled",
}

// rest notes the lines that have no counterpart. Those of defaults belong to no service.
func (v *virtual) rest(h *haproxy, front, servers *section, check *haproxyProbe) {
	proxies := []*section{front, servers}
	if front == servers {
		proxies = proxies[:1]
	}
	for _, s := range proxies {
		for i := range s.lines {
			l := &s.lines[i]
			why := v.effect(front, servers, s, l, check)
			if why == "" {
				continue
			}
			n := Note{Origin: l.at, Message: title(l) + ": " + why, Changes: slices.Contains(changing, l.words[0])}
			if l.at.Line > s.at.Line {
				v.notes = append(v.notes, n)
			} else if !h.said[n] {
				h.said[n] = true
				h.notes = append(h.notes, n)
			}
		}
	}
}

// changing are the lines without which connections go otherwise.
var changing = []string{"acl", "use_backend", "use-server", "tcp-request", "tcp-response", "maxconn", "fullconn", "filter", "dispatch", "rate-limit", "server-template"}

// longest is how many words a line has at most.
var longest = map[string]int{"mode": 2, "default_backend": 2, "disabled": 1, "enabled": 1, "timeout": 3, "hash-type": 4}

// effect says why a line has no effect, "" if it has one.
func (v *virtual) effect(front, servers, s *section, l *statement, check *haproxyProbe) string {
	if most := longest[l.words[0]]; most > 0 && len(l.words) > most {
		return "it has words that were not expected here"
	}
	switch l.words[0] {
	case "server", "default-server":
		if s != servers {
			return "the servers of " + servers.name + " count"
		}
		return ""
	case "server-template":
		return "svcproxy resolves no names"
	case "bind":
		return "a backend binds no address"
	case "use_backend":
		if len(l.words) == 2 && l.value(1) == servers.name {
			return ""
		}
	case "default_backend":
		if s == front && l.value(1) != servers.name {
			return "use_backend without a condition counts"
		}
	case "timeout":
		switch l.value(1) {
		case "check":
			if check.splits() && l.at == servers.last("timeout", "check").at {
				return "in HAProxy it is for the answer alone; here the timeout is for connecting and the answer, so it is the sum of both"
			}
			return ""
		case "connect":
			if check.limitsConnect() && l.at == servers.last("timeout", "connect").at {
				return "only the health check has it"
			}
		case "client", "server", "tunnel", "client-fin", "server-fin":
			return "the timeouts of IPVS count, see table ipvs of svcproxy.toml"
		}
	case "source":
		if l.value(2) == "usesrc" {
			v.hides = false
			return ""
		}
	case "option":
		if isCheckOption(l.value(1)) || l.value(1) == "allbackups" {
			return ""
		}
	case "no":
		if l.value(1) == "option" && isCheckOption(l.value(2)) {
			return ""
		}
	}
	if slices.Contains(handled, l.words[0]) {
		return ""
	}
	return "svcproxy does not have it"
}

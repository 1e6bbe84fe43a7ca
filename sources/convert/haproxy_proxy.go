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
				v.noteDanger(dangerOfBind(l), l.at, "bind: svcproxy does not have the options behind the address")
			}
			h.virtuals = append(h.virtuals, v)
		}
	}
	if len(s.binds) == 0 {
		h.leave(s, s.at, "it binds no address")
	}
	return nil
}

// leave notes that a frontend, or a part of it, is not imported.
func (h *haproxy) leave(s *section, at sources.Origin, format string, args ...any) {
	text := message("%s %s: ", s.kind, s.name) + message(format, args...)
	h.notes = append(h.notes, Note{Origin: at, Message: text, Danger: Feature})
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
	i := slices.IndexFunc(s.lines, func(l statement) bool { return l.words[0] == "use_backend" })
	if i >= 0 && len(s.lines[i].words) == 2 {
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
	v.balance(servers)
	v.servers(servers, haproxyCheckOf(v, servers))
	taken := v.admit(front, servers)
	for _, s := range []*section{front, servers} {
		if s == front || front != servers {
			v.rest(h, s, servers, taken)
		}
	}
}

// balances are the schedulers that do what HAProxy's do.
var balances = map[string]string{"roundrobin": "wrr", "static-rr": "wrr", "leastconn": "wlc", "source": "sh"}

// balance sets the scheduler.
func (v *virtual) balance(s *section) {
	v.scheduler = "wrr"            // HAProxy's default
	v.flags = sources.FlagFallback // HAProxy, too, gives a client another server while its own is down
	l := s.last("balance")
	switch {
	case l == nil:
	case balances[l.value(1)] != "" && len(l.words) == 2:
		v.scheduler = balances[l.value(1)]
	default:
		v.noteChange(l.at, "%s: taken as wrr", title(l))
	}
}

// handled are the lines that are read elsewhere.
var handled = []string{
	"mode", "balance", "default-server", "default_backend", "http-check", "tcp-check", "disabled", "enabled",
}

// changing are the lines without which connections go otherwise.
var changing = []string{
	"acl", "use_backend", "use-server", "tcp-request", "tcp-response", "maxconn", "fullconn", "filter", "dispatch",
	"rate-limit", "server-template", "stick", "source", "external-check", "server",
}

// dangerOf is what is lost with a line.
func dangerOf(l *statement) Danger {
	switch word := l.words[0]; {
	case rejects(l):
		return Access
	case word == "source", word == "tcp-request" && l.value(2) == "expect-proxy":
		return Server
	case slices.Contains(changing, word):
		return Feature
	}
	return Irrelevant
}

// dangerOfBind is what is lost with the options of a bind line.
func dangerOfBind(l *statement) Danger {
	switch {
	case slices.Contains(l.words, "interface"): // it takes clients of one link
		return Access
	case slices.Contains(l.words, "accept-proxy"):
		return Server
	}
	return Feature
}

// rest notes the lines that have no counterpart and are not taken. Those of defaults belong to no service.
func (v *virtual) rest(h *haproxy, s, servers *section, taken map[*statement]bool) {
	for i := range s.lines {
		l := &s.lines[i]
		switch word := l.words[0]; {
		case taken[l], slices.Contains(handled, word), isServer(l) && s == servers:
			continue
		case word == "use_backend" && len(l.words) == 2:
			continue
		case isCheckOption(l), word == "timeout" && (l.value(1) == "check" || l.value(1) == "connect"):
			continue
		}
		n := Note{Origin: l.at, Message: title(l) + ": svcproxy does not have it", Danger: dangerOf(l)}
		switch l.words[0] {
		case "timeout": // client, server, queue, tunnel
			n.Message = title(l) + ": the timeouts of IPVS count, see table ipvs of svcproxy.toml"
		case "server", "server-template":
			n.Message = title(l) + ": the servers of " + servers.name + " count"
		}
		if l.at.Line > s.at.Line {
			v.notes = append(v.notes, n)
		} else if !h.said[n] {
			h.said[n] = true
			h.notes = append(h.notes, n)
		}
	}
}

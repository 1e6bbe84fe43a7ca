package convert

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/sources"
)

// numericPort replaces the name of a usual service behind the last colon by its port.
func numericPort(text string) string {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return text
	}
	name := text[i+1:]
	names := map[string]string{"www": "http", "domain": "dns", "pop3": "pop", "pop3s": "pops", "imap2": "imap",
		"postgresql": "pgsql"}
	if n, ok := names[name]; ok {
		name = n
	}
	for port, service := range serviceOf {
		if service == name {
			return text[:i+1] + strconv.Itoa(int(port))
		}
	}
	return text
}

// isName reports whether a text is the name of a host, not an address.
func isName(text string) bool {
	letter := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
	plain := func(r rune) bool { return letter(r) || r >= '0' && r <= '9' || strings.ContainsRune("._+-", r) }
	return strings.ContainsFunc(text, letter) && !strings.ContainsFunc(text, func(r rune) bool { return !plain(r) })
}

// fallback adds the fallback server of a virtual, or that of all virtuals of its family.
func (l *ldirectord) fallback(v *virtual) {
	text, at := l.own.fallback, l.own.fallbackAt
	if (v.addr.Addr().Is6() || v.ipv6) && (l.own.fallback6 != "" || at == l.tuning.fallbackAt) {
		text, at = l.own.fallback6, l.own.fallback6At
	}
	f := strings.Fields(text)
	if len(f) == 0 {
		return
	}
	if len(f) == 1 {
		f = append(f, "gate") // ldirectord's default
	}
	hosts, port, err := realPlace(numericPort(f[0]), v.addr.Port())
	if err != nil {
		v.noteChange(at, "fallback: %v", err)
		return
	}
	if len(f) > 2 {
		v.note(at, "fallback %s: words that have no meaning stand behind it", f[0])
	}
	for _, a := range hosts {
		if !v.add(real{at: at, place: place{addr: netip.AddrPortFrom(a, port)}, weight: sources.DefaultWeight, backup: true,
			unchecked: true}) {
			continue
		}
		methods := map[string]sources.Forward{"masq": sources.Masquerade, "gate": sources.Direct, "ipip": sources.IPIP}
		v.setForward(at, methods[f[1]], "fallback by "+f[1])
	}
}

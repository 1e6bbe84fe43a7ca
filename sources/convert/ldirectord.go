package convert

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// ldirectordKeys are the keys before the first virtual, by which a file is known.
var ldirectordKeys = []string{
	"checktimeout", "negotiatetimeout", "checkinterval", "failurecount", "autoreload", "logfile", "quiescent",
	"fallback", "fallbackcommand", "emailalert", "emailalertfreq", "emailalertfrom", "emailalertstatus", "callback",
	"execute", "supervised", "fork", "checkcount",
	"cleanstop", "readdquiescent", "smtp", "maintenancedir", "virtual", "virtual6", "real", "real6",
}

// readLDirectord reads ldirectord.cf.
func readLDirectord(f File) (Result, error) {
	l := ldirectord{tuning: ldirectordTuning{check: ldirectordHealth()}}
	line := 0
	for text := range strings.Lines(string(f.Data)) {
		line++
		at := sources.Origin{Source: string(LDirectord), File: f.Name, Line: line}
		if i := strings.IndexByte(text, '#'); i >= 0 && (i == 0 || text[i-1] != '\\') {
			text = text[:i]
		}
		key, value, ok := strings.Cut(text, "=")
		switch {
		case strings.TrimSpace(text) == "":
			continue
		case strings.TrimSpace(text) == "supervised": // as old files have it
			continue
		case !ok:
			return Result{}, fmt.Errorf("%s: want KEY = VALUE", at)
		}
		inside := strings.HasPrefix(strings.ReplaceAll(text, "\t", "    "), "    ")
		if !inside && text[0] == ' ' {
			return Result{}, fmt.Errorf("%s: a line of a virtual begins with a tab or at least 4 blanks", at)
		}
		if err := l.line(at, inside, strings.TrimSpace(key), strings.TrimSpace(value)); err != nil {
			return Result{}, fmt.Errorf("%s: %w", at, err)
		}
	}
	l.end()
	r := services(l.virtuals)
	r.Notes = append(r.Notes, l.notes...)
	r.sortNotes()
	return r, nil
}

type ldirectord struct {
	tuning   ldirectordTuning
	virtuals []virtual
	notes    []Note

	open  *virtual // the virtual that lines belong to
	skip  bool     // it is not imported
	own   ldirectordTuning
	check ldirectordCheck
}

// ldirectordTuning is what a file can say for all virtuals, and each for itself.
type ldirectordTuning struct {
	check                   sources.HealthCheck
	connect, negotiate      time.Duration // timeouts; 0 = the other one, or ldirectord's default
	fallback, fallback6     string
	fallbackAt, fallback6At sources.Origin
}

func (l *ldirectord) note(at sources.Origin, format string, args ...any) {
	if l.open != nil {
		l.open.note(at, format, args...)
		return
	}
	l.notes = append(l.notes, Note{Origin: at, Message: message(format, args...)})
}

// line takes a line. A line that begins with a blank belongs to the virtual above it.
func (l *ldirectord) line(at sources.Origin, inside bool, key, value string) error {
	switch {
	case key == "virtual" || key == "virtual6":
		l.end()
		return l.virtual(at, value, key == "virtual6")
	case !inside:
		l.end()
		return l.tune(&l.tuning, at, key, value)
	case l.skip:
		return nil
	case l.open == nil:
		return fmt.Errorf("%s belongs to a virtual, and there is none above", key)
	}
	return l.inside(at, key, value)
}

func (l *ldirectord) virtual(at sources.Origin, value string, ipv6 bool) error {
	l.own, l.check, l.skip = l.tuning, ldirectordCheck{kind: "negotiate", at: at}, false
	if mark, err := firewallMark(value); err == nil {
		l.open = &virtual{at: at, mark: mark, ipv6: ipv6, protocol: sources.FWMark, scheduler: "wrr"}
		return nil
	}
	addr, err := netip.ParseAddrPort(numericPort(value))
	if err != nil {
		if host, _, ok := strings.Cut(value, ":"); !ok || !isName(host) {
			return fmt.Errorf("virtual: want ADDRESS:PORT")
		}
		l.skip = true
		l.notes = append(l.notes, Note{
			Origin: at, Message: "virtual: import looks up no names, write the address and port in numbers", Danger: Feature,
		})
		return nil
	}
	l.open = &virtual{at: at, addr: addr, protocol: sources.TCP, scheduler: "wrr"}
	if addr.Port() == 53 {
		l.open.protocol = sources.UDP
	}
	return nil
}

// tune takes a key that may stand at the top and in a virtual.
func (l *ldirectord) tune(t *ldirectordTuning, at sources.Origin, key, value string) (err error) {
	if take := checkWords[LDirectord][key]; take != nil {
		if err := take(&t.check, unquote(value)); err != nil {
			return fmt.Errorf("%s: %w", plain(key), err)
		}
		if key == "checkinterval" {
			t.check.FastInterval, t.check.DownInterval = t.check.Interval, t.check.Interval
		}
		return nil
	}
	switch key {
	case "checktimeout":
		t.connect, err = wholeSeconds(value)
	case "negotiatetimeout":
		t.negotiate, err = wholeSeconds(value)
	case "quiescent":
		words := map[string]sources.OnDown{"yes": sources.DownDrain, "no": sources.DownCut}
		if t.check.OnDown = words[value]; t.check.OnDown == "" {
			err = fmt.Errorf("want yes or no")
		}
	case "fallback":
		t.fallback, t.fallbackAt = value, at
	case "fallback6":
		t.fallback6, t.fallback6At = value, at
	case "real", "real6", "scheduler", "protocol", "persistent", "checktype", "service", "request", "receive":
		return fmt.Errorf("%s belongs to a virtual: begin the line with a tab or at least 4 blanks", key)
	case "emailalert", "emailalertfreq", "emailalertfrom", "emailalertstatus", "smtp", "fallbackcommand":
		l.note(at, noteNotify, key)
	case "autoreload", "supervised", "fork", "cleanstop", "readdquiescent", "logfile":
	case "execute":
		l.note(at, "execute: that file is not read, import it, too")
	default:
		l.note(at, "%s: svcproxy does not have it", plain(key))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", plain(key), err)
	}
	return nil
}

// inside takes a key of a virtual.
func (l *ldirectord) inside(at sources.Origin, key, value string) (err error) {
	v := l.open
	switch key {
	case "real", "real6":
		return l.real(at, value)
	case "scheduler":
		v.scheduler = ""
		v.setScheduler(at, value)
	case "protocol":
		v.protocol = map[string]sources.Protocol{"tcp": sources.TCP, "udp": sources.UDP, "fwm": sources.FWMark}[value]
		if v.protocol == 0 {
			return fmt.Errorf("protocol: want tcp or udp")
		}
	case "persistent":
		n, err := strconv.ParseUint(value, 10, 32)
		if err != nil {
			return fmt.Errorf("persistent: want seconds")
		}
		v.setAffinity(at, n)
	case "netmask":
		v.granularity(at, key, value)
	case "servicename":
		v.name = unquote(value)
	case "checktype", "service", "request", "receive", "checkcommand":
		l.check.set(at, key, unquote(value))
	default:
		return l.tune(&l.own, at, key, value)
	}
	return nil
}

func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

// real reads ADDRESS[->ADDRESS][:PORT] METHOD [WEIGHT].
func (l *ldirectord) real(at sources.Origin, value string) error {
	v := l.open
	f := strings.Fields(value)
	if len(f) == 0 {
		return fmt.Errorf("want the address of a real server")
	}
	if name, _, _ := strings.Cut(strings.ReplaceAll(f[0], "->", ":"), ":"); isName(name) {
		v.lose(at, "real server: import looks up no names, write its address")
		return nil
	}
	hosts, port, err := realPlace(numericPort(f[0]), v.addr.Port())
	if err != nil {
		return err
	}
	if len(f) < 2 || !slices.Contains([]string{"masq", "gate", "ipip"}, f[1]) {
		return fmt.Errorf("real %s: want masq, gate or ipip behind the address", f[0])
	}
	r := real{at: at, weight: sources.DefaultWeight}
	methods := map[string]sources.Forward{"masq": sources.Masquerade, "gate": sources.Direct, "ipip": sources.IPIP}
	v.setForward(at, methods[f[1]], f[1])
	rest := f[2:]
	if len(rest) > 0 {
		if n, err := strconv.ParseUint(rest[0], 10, 31); err == nil {
			r.weight, rest = uint32(n), rest[1:]
		}
	}
	if len(rest) > 0 {
		v.noteChange(at, "real: what stands behind its weight is not imported: limits, or a request of its own, "+
			"so checks only connect")
		l.check.differs = l.check.differs || strings.Contains(strings.Join(rest, " "), `"`)
	}
	for _, a := range hosts {
		r.addr = netip.AddrPortFrom(a, port)
		v.add(r)
	}
	return nil
}

// realPlace reads the addresses and the port of a real server.
func realPlace(text string, byDefault uint16) ([]netip.Addr, uint16, error) {
	port := byDefault
	first, last, isRange := strings.Cut(text, "->")
	place := first
	if isRange {
		place = last
	}
	host := place
	if a, err := netip.ParseAddrPort(place); err == nil {
		host, port = a.Addr().String(), a.Port()
	}
	host = strings.Trim(host, "[]")
	if !isRange {
		first = host
	}
	from, err := netip.ParseAddr(strings.Trim(first, "[]"))
	to, err2 := netip.ParseAddr(host)
	if err != nil || err2 != nil {
		return nil, 0, fmt.Errorf("want ADDRESS:PORT in numbers")
	}
	var all []netip.Addr
	for a := from; ; a = a.Next() {
		if all = append(all, a); a == to {
			return all, port, nil
		}
		if len(all) == maxRange || !a.Next().IsValid() {
			return nil, 0, fmt.Errorf("want a range from a smaller to a larger address, of at most %d", maxRange)
		}
	}
}

// end finishes the virtual that is open.
func (l *ldirectord) end() {
	if l.open == nil {
		return
	}
	v := l.open
	l.fallback(v)
	check := l.healthCheck(v)
	for i := range v.reals {
		if r := &v.reals[i]; !r.backup {
			r.check, r.checkAt = check, l.check.at
		}
	}
	l.virtuals = append(l.virtuals, *v)
	l.open = nil
}

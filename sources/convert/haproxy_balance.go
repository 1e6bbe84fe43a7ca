package convert

import (
	"slices"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// balances are the schedulers that come near to HAProxy's. Some need requests: HAProxy takes roundrobin for these.
var balances = map[string]string{"roundrobin": "wrr", "static-rr": "wrr", "leastconn": "wlc", "source": "sh", "hash src": "sh", "uri": "wrr", "url_param": "wrr", "hdr": "wrr"}

// balance sets the scheduler.
func (v *virtual) balance(s *section) {
	v.scheduler = "wrr" // HAProxy's default
	if l := s.last("balance"); l != nil {
		by, _, _ := strings.Cut(l.value(1), "(")
		known, rest := balances[by], l.words[min(2, len(l.words)):]
		if by == "hash" && l.value(2) == "src" {
			known, rest = "sh", rest[1:]
		}
		switch {
		case known == "":
			v.scheduler = "wlc"
			v.noteChange(l.at, "%s: taken as wlc", title(l))
		case by == "uri" || by == "url_param" || by == "hdr":
			v.note(l.at, "%s: taken as wrr, as HAProxy itself does without mode http", title(l))
		default:
			v.scheduler = known
			if len(rest) > 0 {
				v.note(l.at, "%s: it has words that were not expected here", title(l))
			}
		}
	}
	if l := s.last("hash-type"); l != nil {
		if v.scheduler == "sh" && l.value(1) == "consistent" {
			v.scheduler = "mh"
		} else if v.scheduler == "sh" && len(l.words) > 2 {
			v.note(l.at, "%s: IPVS has its own hash", title(l))
		}
	}
	v.flags = sources.FlagFallback // HAProxy, too, gives a client another server while its own is down
}

// stick sets the affinity.
func (v *virtual) stick(h *haproxy, s *section) {
	tables := s
	for i := range s.lines {
		l := &s.lines[i]
		switch {
		case l.words[0] != "stick":
		case (l.value(1) == "on" || l.value(1) == "match" || l.value(1) == "store-request") && l.value(2) == "src":
			v.affinity = sources.DefaultAffinityTimeout
			if rest := l.words[3:]; len(rest) == 2 && rest[0] == "table" && h.tables(rest[1]) != nil {
				tables = h.tables(rest[1])
				h.used[tables] = true
			} else if len(rest) > 0 {
				v.noteChange(l.at, "%s: only \"%s\" is taken", title(l), strings.Join(l.words[:3], " "))
			}
		default:
			v.noteChange(l.at, "%s: svcproxy knows clients by their addresses only", title(l))
		}
	}
	if t := tables.last("stick-table"); t != nil {
		v.stickTable(t)
	}
}

// tables returns the proxy that has a stick table.
func (h *haproxy) tables(name string) *section {
	for _, kind := range []string{"backend ", "listen ", "frontend "} {
		if s := h.sections[kind+name]; s != nil && s.last("stick-table") != nil {
			return s
		}
	}
	return nil
}

// stickTable takes the time after which a client is forgotten.
func (v *virtual) stickTable(l *statement) {
	if v.affinity == 0 {
		v.note(l.at, "%s: svcproxy keeps no such table", title(l))
		return
	}
	var left []string
	expires := false
	for i := 1; i < len(l.words); i++ {
		switch w := l.words[i]; w {
		case "expire":
			i++
			if d, err := haproxyTime(l.value(i), time.Millisecond); err == nil {
				expires = true
				v.setAffinity(l.at, uint64(d/time.Second))
			} else {
				v.note(l.at, "expire: %v", err)
			}
		case "type", "size":
			i++ // IPVS has no bound of clients
			if w == "type" && !slices.Contains([]string{"ip", "ipv6"}, l.value(i)) {
				left = append(left, w, l.value(i))
			}
		default:
			left = append(left, w)
		}
	}
	if !expires {
		v.note(l.at, "stick-table without expire: a client stays for %s after its last connection", v.affinity)
	}
	if len(left) > 0 {
		v.note(l.at, "stick-table options %s: svcproxy does not have them", strings.Join(left, " "))
	}
}

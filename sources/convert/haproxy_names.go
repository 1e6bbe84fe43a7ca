package convert

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// templateCount reads for how many servers a template is: N, or LOW-HIGH.
func templateCount(text string) (int, error) {
	low, high, isRange := strings.Cut(text, "-")
	if !isRange {
		low, high = "1", text
	}
	from, err := strconv.ParseUint(low, 10, 31)
	to, mistake := strconv.ParseUint(high, 10, 31)
	if err != nil || mistake != nil || to < max(from, 1) {
		return 0, fmt.Errorf("want a number of servers, such as 5 or 1-5")
	}
	return int(to-from) + 1, nil
}

// named notes what differs from HAProxy, where a line with a DNS name has count servers of one address each.
func (v *virtual) named(l *statement, r *real, count int, o map[string]string, written string) {
	if count != sources.MostAddresses {
		v.noteChange(l.at, "%s: addresses of its DNS name are backends up to %d, HAProxy uses %d", title(l),
			sources.MostAddresses, count)
	}
	if r.srv {
		v.noteChange(l.at, "%s: SRV records without the best priority are backups, HAProxy heeds none", title(l))
	}
	if r.srv && !r.weighted {
		v.noteChange(l.at, "%s: the weights of SRV records count as they are, 0 as 1; HAProxy divides them by 256", title(l))
	}
	if o["resolvers"] == "" {
		v.noteChange(l.at, "%s: its DNS name is asked of name servers alone, /etc/hosts does not count", title(l))
	}
	family := "ipv6"
	if v.addr.Addr().Is4() {
		family = "ipv4"
	}
	if prefer := o["resolve-prefer"]; prefer != "" && prefer != family ||
		strings.HasPrefix(written, "ipv") && !strings.HasPrefix(written, family) {
		v.noteChange(l.at, "%s: addresses of its DNS name have the family of the VIP, %s", title(l), family)
	}
	if slices.ContainsFunc(strings.Split(o["init-addr"], ","), isAddress) {
		v.note(l.at, "server option init-addr: svcproxy starts with the last answer for the name, else without addresses")
	}
}

func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

// resolverTimes are the keys of svcproxy.toml for times of a section of name servers. "hold valid" has none: in HAProxy
// it has no effect on servers.
var resolverTimes = map[string]string{
	"hold nx": "dns.emptyGrace", "hold other": "dns.keep", "hold refused": "dns.keep", "hold timeout": "dns.keep",
	"hold valid": "", "timeout resolve": "dns.maxTTL",
}

// resolvers notes which keys of svcproxy.toml stand for a section of name servers.
func (h *haproxy) resolvers(s *section) {
	var servers, keys, lost []string
	times := map[string]time.Duration{} // by key
	for i := range s.lines[1:] {        // the first is the mode, which is that of all sections
		l := &s.lines[i+1]
		word, known := plain(l.words[0]), false
		switch word {
		case "nameserver":
			text := l.value(2)
			p, err := serverPlace(text[strings.IndexByte(text, '@')+1:], 53)
			if known = err == nil && p.host == "" && p.addr.Port() != 0; known {
				servers = append(servers, strconv.Quote(p.addr.String()))
			}
		case "hold", "timeout":
			key, has := resolverTimes[word+" "+l.value(1)]
			d, err := haproxyTime(l.value(2), time.Millisecond)
			if known = has && err == nil; known && key != "" {
				times[key] = max(times[key], d)
			}
			word += " " + plain(l.value(1))
		case "parse-resolv-conf": // svcproxy does so unless it has servers
			known = s.last("nameserver") == nil
		}
		if !known && !slices.Contains(lost, word) {
			lost = append(lost, word)
		}
	}
	if servers != nil {
		keys = append(keys, "dns.servers = ["+strings.Join(servers, ", ")+"]")
	}
	for _, key := range slices.Sorted(maps.Keys(times)) {
		keys = append(keys, fmt.Sprintf("%s = %q", key, max(times[key], time.Second)))
	}
	what := strings.TrimSpace("resolvers " + s.name)
	if keys != nil {
		h.notes = append(h.notes, Note{Origin: s.at, Danger: Feature,
			Message: message("%s: write %s in svcproxy.toml", what, strings.Join(keys, ", "))})
	}
	if lost != nil {
		h.notes = append(h.notes, Note{Origin: s.at,
			Message: message("%s: svcproxy does not have %s", what, strings.Join(lost, ", "))})
	}
}

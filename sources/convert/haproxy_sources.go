package convert

import (
	"net/netip"
	"slices"
	"strings"
)

// admission finds the clients that a section lets in by their addresses, and the lines that say so: tcp-request lines
// that accept addresses and reject all others, and the lists that these name. ranges is nil if there are no such lines,
// or if they say more than that.
func (s *section) admission() (ranges []netip.Prefix, lines []*statement) {
	stage, over := "", false
	for i := range s.lines {
		l := &s.lines[i]
		if l.words[0] != "tcp-request" || l.value(1) == "inspect-delay" {
			continue
		}
		if over || len(l.words) < 3 || stage != "" && l.value(1) != stage {
			return nil, nil // a line after the last decision, or of another stage of the connection
		}
		stage = l.value(1)
		from, lists, negated, ok := s.condition(l.words[3:])
		switch {
		case l.value(2) == "accept" && ok && !negated && from != nil:
		case rejects(l) && ok && negated && from != nil && ranges == nil:
			over = true
		case rejects(l) && len(l.words) == 3 && ranges != nil:
			over = true
		default:
			return nil, nil
		}
		ranges, lines = append(ranges, from...), append(append(lines, l), lists...)
	}
	if !over || slices.ContainsFunc(s.binds, func(l statement) bool { return slices.Contains(l.words, "accept-proxy") }) {
		return nil, nil // behind accept-proxy the address is what a header says
	}
	return ranges, lines
}

// rejects reports whether a line closes connections.
func rejects(l *statement) bool {
	return l.words[0] == "tcp-request" && (l.value(2) == "reject" || l.value(2) == "silent-drop")
}

// condition reads "if" or "unless" and one term: the name of an acl or "{ src ADDRESS... }", perhaps with "!". It
// returns the addresses, the lines of the acl, and whether it holds for all others instead.
func (s *section) condition(words []string) (from []netip.Prefix, lists []*statement, negated, ok bool) {
	if len(words) < 2 || words[0] != "if" && words[0] != "unless" {
		return nil, nil, false, false
	}
	negated = words[0] == "unless"
	words = slices.Clone(words[1:])
	for strings.HasPrefix(words[0], "!") {
		negated = !negated
		if words[0] = words[0][1:]; words[0] == "" {
			if words = words[1:]; len(words) == 0 {
				return nil, nil, false, false
			}
		}
	}
	if n := len(words); words[0] == "{" && words[n-1] == "}" {
		from, ok = prefixes(words[1 : n-1])
		return from, nil, negated, ok
	} else if n != 1 {
		return nil, nil, false, false
	}
	for i := range s.lines {
		if l := &s.lines[i]; l.words[0] == "acl" && l.value(1) == words[0] {
			more, ok := prefixes(l.words[2:])
			if !ok {
				return nil, nil, false, false
			}
			from, lists = append(from, more...), append(lists, l)
		}
	}
	return from, lists, negated, from != nil
}

// prefixes reads "src ADDRESS[/BITS]...".
func prefixes(words []string) (all []netip.Prefix, ok bool) {
	if len(words) < 2 || words[0] != "src" {
		return nil, false
	}
	for _, w := range words[1:] {
		p, err := netip.ParsePrefix(w)
		if a, single := netip.ParseAddr(w); single == nil && a.Zone() == "" {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			return nil, false
		}
		all = append(all, p.Masked())
	}
	return all, true
}

// admit takes the clients that a frontend lets in, or else its backend. It returns the lines that are no longer needed.
func (v *virtual) admit(front, servers *section) (taken map[*statement]bool) {
	taken = map[*statement]bool{}
	for _, s := range []*section{front, servers} {
		ranges, lines := s.admission()
		known := slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Addr().Is4() == v.addr.Addr().Is4() })
		if !known || v.ranges != nil { // ranges of the other family alone would let everyone in
			continue
		}
		v.ranges = ranges
		for _, l := range lines {
			taken[l] = true
		}
	}
	return taken
}

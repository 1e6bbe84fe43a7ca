package convert

import (
	"fmt"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/sources"
)

// readHAProxy reads haproxy.cfg: its proxies with mode tcp.
func readHAProxy(f File) (Result, error) {
	h := haproxy{sections: map[string]*section{}, used: map[*section]bool{}, said: map[Note]bool{}}
	if err := h.read(f); err != nil {
		return Result{}, err
	}
	for _, s := range h.order {
		if s.kind == "listen" || s.kind == "frontend" {
			if err := h.frontend(s); err != nil {
				return Result{}, err
			}
		}
	}
	for _, s := range h.order {
		h.unused(s)
	}
	r := services(h.virtuals)
	r.Notes = append(r.Notes, h.notes...)
	r.sortNotes()
	return r, nil
}

type haproxy struct {
	sections map[string]*section // by kind and name
	order    []*section
	used     map[*section]bool // backends of services, and defaults
	virtuals []virtual
	notes    []Note
	said     map[Note]bool // about lines of defaults
}

// section is a section of the configuration, with the defaults that came before it.
type section struct {
	at         sources.Origin
	kind, name string
	lines      []statement // of its defaults first, without those of binds
	binds      []statement
	defaults   *section // nil = HAProxy's own
}

// read splits the configuration into sections.
func (h *haproxy) read(f File) error {
	var open, defaults *section
	line := 0
	for text := range strings.Lines(string(f.Data)) {
		line++
		at := sources.Origin{Source: string(HAProxy), File: f.Name, Line: line}
		words, err := haproxyWords(text)
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		switch {
		case len(words) == 0:
		case strings.HasPrefix(words[0], "."):
			if words[0] == ".if" || words[0] == ".elif" || words[0] == ".else" {
				h.notes = append(h.notes, Note{Origin: at, Message: words[0] + ": no condition is evaluated, all branches are read",
					Danger: Feature})
			}
		case isSection(words[0]):
			if open, err = h.section(at, words, defaults); err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
			if open.kind == "defaults" {
				defaults = open
			}
		case open == nil:
			return fmt.Errorf("%s: a line stands in no section", at)
		case words[0] == "bind" && open.kind != "backend":
			open.binds = append(open.binds, statement{at: at, words: words})
		default:
			open.lines = append(open.lines, statement{at: at, words: words})
		}
	}
	return nil
}

func isSection(word string) bool {
	return isProxy(word) || slices.Contains([]string{
		"global", "defaults", "peers", "resolvers", "userlist", "mailers", "program", "cache", "ring", "http-errors",
		"log-forward",
		"log-profile", "fcgi-app", "crt-list", "crt-store", "acme", "traces",
	}, word)
}

func isProxy(kind string) bool { return kind == "listen" || kind == "frontend" || kind == "backend" }

// section opens a section: KIND [NAME] [from DEFAULTS]. One that names no defaults has the last ones.
func (h *haproxy) section(at sources.Origin, words []string, defaults *section) (*section, error) {
	s := &section{at: at, kind: words[0]}
	rest := words[1:]
	if len(rest) > 0 && (rest[0] != "from" || len(rest) == 1) {
		s.name, rest = rest[0], rest[1:]
	}
	if isProxy(s.kind) {
		if s.name == "" {
			return nil, fmt.Errorf("%s has no name", s.kind)
		}
		s.defaults = defaults
	}
	if len(rest) == 2 && rest[0] == "from" {
		if s.defaults = h.sections["defaults "+rest[1]]; s.defaults == nil {
			return nil, fmt.Errorf("there are no defaults of that name before this line")
		}
		rest = nil
	}
	if s.defaults != nil {
		s.lines = slices.Clone(s.defaults.lines)
	} else {
		s.lines = []statement{{words: []string{"mode", "tcp"}}} // as HAProxy itself
	}
	if s.kind == "listen" && len(rest) > 0 { // the address stood here up to HAProxy 1.5
		s.binds = append(s.binds, statement{at: at, words: append([]string{"bind"}, rest...)})
	} else if len(rest) > 0 && s.kind != "log-profile" {
		h.notes = append(h.notes, Note{Origin: at, Message: message("%s %s: it has words that were not expected here", s.kind,
			s.name)})
	}
	key := s.kind + " " + s.name
	if first := h.sections[key]; first != nil && isProxy(s.kind) {
		return nil, fmt.Errorf("%s is there twice, first at %s", key, first.at)
	}
	h.sections[key] = s
	h.order = append(h.order, s)
	return s, nil
}

// unused notes a section that no service comes from.
func (h *haproxy) unused(s *section) {
	switch {
	case s.kind == "backend" && !h.used[s]:
		h.notes = append(h.notes, Note{Origin: s.at, Message: "backend " + s.name + ": no service has it as its " +
			"default_backend"})
	case s.kind == "global":
		h.notes = append(h.notes, Note{Origin: s.at, Message: "global: settings of HAProxy's own process"})
	case s.kind == "resolvers":
		h.resolvers(s)
	case !isProxy(s.kind) && s.kind != "defaults":
		h.notes = append(h.notes, Note{Origin: s.at, Message: strings.TrimSpace(s.kind+" "+s.name) +
			": svcproxy has no such section"})
	}
}

// last returns the last line of a section that begins with the words, as that one counts.
func (s *section) last(words ...string) *statement {
	for i := len(s.lines) - 1; i >= 0; i-- {
		if l := &s.lines[i]; len(l.words) >= len(words) && slices.Equal(l.words[:len(words)], words) {
			return l
		}
	}
	return nil
}

// disabled reports whether a proxy does not run.
func (s *section) disabled() *statement {
	off := s.last("disabled")
	if on := s.last("enabled"); off != nil && on != nil && on.at.Line > off.at.Line {
		return nil
	}
	return off
}

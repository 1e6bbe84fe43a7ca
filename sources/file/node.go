package file

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file/strict"
)

// node is one value of the document: what it is called in messages, where it stands, what it is.
type node struct {
	key string
	at  *strict.Place
	v   any // as the TOML library gives it to an any
}

func (n node) line() int {
	if n.at == nil {
		return 0
	}
	return n.at.Line
}

// text is the value if it is a string. What plain ones of a section say is only in their places.
func (n node) text() (string, bool) {
	s, ok := n.v.(string)
	if ok && n.at != nil && n.at.Text != "" {
		s = n.at.Text
	}
	return s, ok
}

// integer is the value if it is one; a section's as text's.
func (n node) integer() (int64, bool) {
	i, ok := n.v.(int64)
	if ok && n.at != nil && n.at.Text != "" {
		i, _ = strconv.ParseInt(n.at.Text, 10, 64) // digits, and few
	}
	return i, ok
}

// decoder collects what is wrong with one document.
type decoder struct {
	origin   sources.Origin // without a line
	service  string         // the one being read, or ""
	problems []sources.Problem
	warnings []sources.Problem

	draft draft             // of the last service, for its room
	texts map[string]string // met so far
}

// own is a text of the document, once for all that are equal, and without the document around it.
func (d *decoder) own(text string) string {
	own, met := d.texts[text]
	if !met {
		if d.texts == nil {
			d.texts = map[string]string{}
		}
		own = strings.Clone(text)
		d.texts[own] = own
	}
	return own
}

func (d *decoder) problem(n node, format string, args ...any) sources.Problem {
	p := sources.Problem{Service: d.service, Origin: d.origin, Message: fmt.Sprintf(format, args...)}
	p.Origin.Line = n.line()
	return p
}

func (d *decoder) refuse(n node, format string, args ...any) {
	d.problems = append(d.problems, d.problem(n, format, args...))
}

// maxProblems is how many problems of a file are told: a person mends a few and looks again.
const maxProblems = 100

// full says whether enough problems were found to read no further.
func (d *decoder) full() bool { return len(d.problems) > maxProblems }

// few are the first problems in order of the text, which map order must not show, with a word on the rest.
func few(problems []sources.Problem) []sources.Problem {
	sources.SortProblems(problems)
	if len(problems) > maxProblems {
		problems = problems[:maxProblems+1]
		problems[maxProblems] = sources.Problem{Origin: problems[maxProblems].Origin, Message: fmt.Sprintf("more than %d problems: mend these first", maxProblems)}
	}
	return problems
}

func (d *decoder) warn(n node, format string, args ...any) {
	d.warnings = append(d.warnings, d.problem(n, format, args...))
}

// table reads a table strictly: a key that is not among the fields is refused. Keys are taken in the order
// of the fields, so that the same file has the same problems first.
func table[T any](d *decoder, n node, known fields[T], into *T) {
	t, ok := n.v.(map[string]any)
	if !ok {
		d.mistyped(n, "a table")
		return
	}
	found := 0
	for i := 0; i < len(known) && found < len(t); i++ {
		if v, ok := t[known[i].name]; ok {
			found++
			known[i].read(d, node{known[i].name, n.at.Key(known[i].name), v}, into)
		}
	}
	if found == len(t) {
		return
	}
	names := known.names()
	for _, key := range slices.Sorted(maps.Keys(t)) {
		if !slices.Contains(names, key) && !strict.Spare(key) && !d.full() {
			d.unknown(node{key, n.at.Key(key), t[key]}, names)
		}
	}
}

func (d *decoder) unknown(n node, known []string) {
	switch meant := strict.Near(n.key, known); {
	case meant != "":
		d.refuse(n, "unknown key %q, did you mean %q?", n.key, meant)
	case len(known) <= 10:
		d.refuse(n, "unknown key %q, the keys here are %s", n.key, strings.Join(known, ", "))
	default:
		d.refuse(n, "unknown key %q, see services.toml(5) for the keys of a service", n.key)
	}
}

// mistyped refuses a value that is not what it must be.
func (d *decoder) mistyped(n node, want string) {
	d.refuse(n, "%s must be %s, not %s", n.key, want, strict.TypeOf(n.v))
}

// list calls item for each element of an array, or of an array of [[tables]], while problems are of use.
func (d *decoder) list(n node, of string, item func(node)) {
	switch list := n.v.(type) {
	case []any:
		for i := 0; i < len(list) && !d.full(); i++ {
			item(node{n.key, n.at.Elem(i), list[i]})
		}
	case []map[string]any:
		for i := 0; i < len(list) && !d.full(); i++ {
			item(node{n.key, n.at.Elem(i), list[i]})
		}
	default:
		d.mistyped(n, "an array of "+of)
	}
}

func (d *decoder) text(n node, into *string) {
	if s, ok := n.text(); ok {
		*into = d.own(s)
	} else {
		d.mistyped(n, "a string")
	}
}

func (d *decoder) flag(n node, into *bool) {
	if b, ok := n.v.(bool); ok {
		*into = b
	} else {
		d.mistyped(n, "true or false")
	}
}

func (d *decoder) port(n node, into *uint16) {
	switch i, ok := n.integer(); {
	case !ok:
		d.mistyped(n, "a port number")
	case i < 1 || i > math.MaxUint16:
		d.refuse(n, "%s %d is not a port: must be 1 to 65535", n.key, i)
	default:
		*into = uint16(i)
	}
}

func (d *decoder) duration(n node, into *time.Duration) {
	s, ok := n.text()
	if !ok {
		d.mistyped(n, `a duration such as "30s"`)
		return
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		d.refuse(n, `%s %q is not a duration such as "30s", "5m" or "3h"`, n.key, s)
		return
	}
	if v < 0 {
		d.refuse(n, "%s %q must not be negative", n.key, s)
		return
	}
	*into = v
}

func (d *decoder) addr(n node) (netip.Addr, bool) {
	s, ok := n.text()
	if !ok {
		d.mistyped(n, "an IP address in quotes")
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(strings.TrimSpace(s))
	if err != nil {
		d.refuse(n, "%s %q is not an IP address%s", n.key, s, addrHint(s))
		return netip.Addr{}, false
	}
	if a.Is4In6() {
		d.refuse(n, "%s %q is an IPv4 address in IPv6 clothing: write %q", n.key, s, a.Unmap())
		return netip.Addr{}, false
	}
	return a, true
}

// addrHint says what is probably meant by something near an address.
func addrHint(s string) string {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return fmt.Sprintf(": write %q, the port belongs in ports", ap.Addr())
	}
	if p, err := netip.ParsePrefix(s); err == nil {
		return fmt.Sprintf(": write %q, without a prefix length", p.Addr())
	}
	return ""
}

func (d *decoder) addrs(n node, into *[]netip.Addr) {
	d.list(n, "IP addresses", func(n node) {
		if a, ok := d.addr(n); ok {
			*into = append(*into, a)
		}
	})
}

// word reads one of a few words.
func word[W ~string](d *decoder, n node, into *W, known ...W) {
	s, ok := n.text()
	if !ok {
		d.mistyped(n, "a string")
		return
	}
	if i := slices.Index(known, W(s)); i >= 0 {
		*into = known[i]
		return
	}
	names := make([]string, 0, len(known))
	for _, k := range known {
		if k != "" {
			names = append(names, string(k))
		}
	}
	if meant := strict.Near(s, names); meant != "" {
		d.refuse(n, "%s %q is not known, did you mean %q?", n.key, s, meant)
		return
	}
	d.refuse(n, "%s %q is not one of %s", n.key, s, strings.Join(names, ", "))
}

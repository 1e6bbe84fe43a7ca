package config

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/sources/file/strict"
)

// list is an array, whatever its items are.
type list[T any] struct {
	p     *[]T
	of    string // "CIDRs"
	parse func(string) (T, error)
	print func(T) string
}

func (l list[T]) form() form { return formList }
func (l list[T]) get() any {
	items := make([]any, len(*l.p))
	for i, item := range *l.p {
		items[i] = l.print(item)
	}
	return items
}
func (l list[T]) set(v any) error {
	words, err := stringsOf(v, l.of)
	if err != nil {
		return err
	}
	var items []T
	for i, w := range words {
		item, err := l.parse(w)
		if err != nil {
			return &itemError{i, err}
		}
		items = append(items, item)
	}
	*l.p = items
	return nil
}

func stringsOf(v any, of string) ([]string, error) {
	array, ok := v.([]any)
	if !ok {
		return nil, mistyped("an array of "+of, v)
	}
	words := make([]string, len(array))
	for i, item := range array {
		if words[i], ok = item.(string); !ok {
			return nil, &itemError{i, fmt.Errorf("must be an array of %s in quotes, an element is %s", of, strict.TypeOf(item))}
		}
	}
	return words, nil
}

// itemError is what is wrong with one element, which may have a line of its own.
type itemError struct {
	index int
	err   error
}

func (e *itemError) Error() string { return e.err.Error() }

func prefixes(p *[]netip.Prefix) list[netip.Prefix] {
	return list[netip.Prefix]{p, "CIDRs", parsePrefix, netip.Prefix.String}
}

func addresses(p *[]netip.Addr) list[netip.Addr] {
	return list[netip.Addr]{p, "IP addresses", parseAddr, netip.Addr.String}
}

func paths(p *[]string) list[string] {
	return list[string]{p, "file names", func(s string) (string, error) { return s, absolute(s) }, func(s string) string { return s }}
}

func hostNames(p *[]string) list[string] {
	return list[string]{p, "host names", func(s string) (string, error) { return s, checkHost(s) }, func(s string) string { return s }}
}

// hostName is a name without a port, as a Host header has it, or a domain with a dot before it.
var hostName = regexp.MustCompile(`^(\*|\.?[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?)$`)

func checkHost(s string) error {
	if !hostName.MatchString(s) || len(s) > 253 {
		return fmt.Errorf(`%q is not a name such as "node1.example.com", ".example.com" or "*"`, s)
	}
	return nil
}

// parsePrefix masks host bits: 10.0.0.1/8 is 10.0.0.0/8, as upstream reads it.
func parsePrefix(s string) (netip.Prefix, error) {
	s = strings.TrimSpace(s)
	p, err := netip.ParsePrefix(s)
	if err != nil {
		if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
			return p, fmt.Errorf("%q is not a CIDR: write %q for one address", s, netip.PrefixFrom(a, a.BitLen()))
		}
		return p, fmt.Errorf(`%q is not a CIDR such as "10.0.0.0/8"`, s)
	}
	if p.Addr().Is4In6() {
		return p, fmt.Errorf("%q is an IPv4 range in IPv6 clothing: write it as IPv4", s)
	}
	return p.Masked(), nil
}

// pair is a string of one CIDR, or of one of each family with a comma between.
type pair struct{ p *[]netip.Prefix }

func (c pair) form() form { return formText }
func (c pair) get() any {
	words := make([]string, len(*c.p))
	for i, p := range *c.p {
		words[i] = p.String()
	}
	return strings.Join(words, ",")
}
func (c pair) set(v any) error {
	s, ok := v.(string)
	if !ok {
		return mistyped(`a string such as "10.244.0.0/16,fd00:10:244::/64"`, v)
	}
	var found []netip.Prefix
	for w := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ',' }) {
		p, err := parsePrefix(w)
		if err != nil {
			return err
		}
		for _, other := range found {
			if other.Addr().Is4() == p.Addr().Is4() {
				return fmt.Errorf("%q has two CIDRs of one family: one IPv4 and one IPv6 at most", s)
			}
		}
		found = append(found, p)
	}
	*c.p = found
	return nil
}

// nodePorts is an array of CIDRs, or the word primary alone.
type nodePorts struct{ p *NodePortAddresses }

const primary = "primary"

func (n nodePorts) form() form { return formList }
func (n nodePorts) get() any {
	if n.p.Primary {
		return []any{primary}
	}
	return prefixes(&n.p.CIDRs).get()
}
func (n nodePorts) set(v any) error {
	words, err := stringsOf(v, "CIDRs")
	switch {
	case err != nil:
		return err
	case slices.Equal(words, []string{primary}):
		*n.p = NodePortAddresses{Primary: true}
		return nil
	case slices.Contains(words, primary):
		return fmt.Errorf("has %q beside CIDRs: it must stand alone", primary)
	}
	var cidrs []netip.Prefix
	if err := prefixes(&cidrs).set(v); err != nil {
		return err
	}
	*n.p = NodePortAddresses{CIDRs: cidrs}
	return nil
}

// gates are upstream's feature gates.
type gates struct{ p *map[string]bool }

func (g gates) form() form { return formGates }
func (g gates) get() any {
	t := make(map[string]any, len(*g.p))
	for name, on := range *g.p {
		t[name] = on
	}
	return t
}
func (g gates) set(v any) error {
	t, ok := v.(map[string]any)
	if !ok {
		return mistyped("a table such as { Gate = true }", v)
	}
	found := make(map[string]bool, len(t))
	for _, name := range slices.Sorted(maps.Keys(t)) {
		on, ok := t[name].(bool)
		if !ok {
			return fmt.Errorf("gate %s must be true or false, not %s", spelt(name), strict.TypeOf(t[name]))
		}
		if !strict.Spare(name) {
			found[name] = on
		}
	}
	if len(found) == 0 {
		found = nil
	}
	*g.p = found
	return nil
}

package kernel

import (
	"fmt"
	"strconv"
	"strings"
)

// set reads: create NAME TYPE and options, of which some have a value.
func (p *parser) set(f []string) error {
	if len(f) < 3 {
		return fmt.Errorf("create: want a name and a type")
	}
	s := Set{Name: f[1], Type: SetType(f[2]), Family: IPv4}
	var o SetOptions
	for i := 3; i < len(f); i++ {
		value := ""
		if i+1 < len(f) {
			value = f[i+1]
		}
		switch f[i] {
		case "family", "maxelem", "references", "timeout", "netmask", "range":
			if err := s.option(&o, f[i], value); err != nil {
				return fmt.Errorf("set %s: %w", s.Name, err)
			}
			i++
		case "counters":
			o.Counters = true
		case "comment":
			o.Comment = true
		case "skbinfo":
			o.SKBInfo = true
		case "forceadd":
			o.ForceAdd = true
		}
	}
	s.Options = o.String()
	if s.Type.Base() == BitmapPort {
		// A bitmap has no family of its own; its name tells whose it is.
		s.MaxElem, s.Family = 0, IPv4
		if strings.Contains(s.Name, "-6-") {
			s.Family = IPv6
		}
	}
	p.o.Sets = append(p.o.Sets, s)
	return nil
}

// option sets an option that has a value.
func (s *Set) option(o *SetOptions, name, value string) error {
	switch name {
	case "family":
		if value == "inet6" {
			s.Family = IPv6
		}
		return nil
	case "range":
		if s.Type == BitmapPort && value != "0-65535" {
			s.Type += SetType(" range " + value)
		}
		return nil
	}
	n, err := strconv.ParseUint(value, 10, 32)
	if err != nil {
		return fmt.Errorf("%s %q: not a number", name, value)
	}
	switch name {
	case "maxelem":
		s.MaxElem = uint32(n)
	case "references":
		s.References = uint32(n)
	case "timeout":
		o.Timeout, o.HasTimeout = uint32(n), true
	case "netmask":
		o.Netmask = uint8(min(n, 128))
	}
	return nil
}

// SetOptions are options of sets that ours never have. Their String is Set.Options.
type SetOptions struct {
	HasTimeout bool
	Timeout    uint32 // in seconds; 0 is for ever, unless an entry has its own
	Netmask    uint8  // prefix length that addresses are cut to, 0 if they are not
	Counters   bool
	Comment    bool
	SKBInfo    bool
	ForceAdd   bool // a full set evicts entries
}

func (o SetOptions) String() string {
	if o == (SetOptions{}) {
		return ""
	}
	var words []string
	if o.Netmask > 0 {
		words = append(words, fmt.Sprintf("netmask %d", o.Netmask))
	}
	if o.HasTimeout {
		words = append(words, fmt.Sprintf("timeout %d", o.Timeout))
	}
	for _, flag := range []struct {
		set  bool
		word string
	}{{o.Counters, "counters"}, {o.Comment, "comment"}, {o.SKBInfo, "skbinfo"}, {o.ForceAdd, "forceadd"}} {
		if flag.set {
			words = append(words, flag.word)
		}
	}
	return strings.Join(words, " ")
}

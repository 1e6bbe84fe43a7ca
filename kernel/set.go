package kernel

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Set is an ipset, or a set or map of nftables. A bitmap's Type has its range, unless that is all ports.
type Set struct {
	Name   string
	Type   SetType
	Family Family
	// MaxElem is the capacity in entries, 0 for a bitmap. In a wanted state it is for
	// creating the set: an existing set is kept as long as its own capacity suffices.
	MaxElem uint32
	// Options are those that the sets of svcproxy never have, as ipset prints them:
	// "timeout 600 counters". Such a set may expire or evict entries.
	Options string
	// References counts the rules of all programs that use a set whose type is not
	// the one that its name should have. It is 0 for all other sets.
	References uint32
	// Size is how many entries a set to be created will soon get, 0 in readings: the
	// kernel starts the set with as many buckets.
	Size uint32
}

var sets = list[Set]{
	get:     func(s State) []Set { return s.Sets },
	set:     func(s *State, all []Set) { s.Sets = all },
	compare: Set.Compare,
	read:    parseSet,
}

// Kind is KindSet.
func (Set) Kind() Kind { return KindSet }

// Compare orders by name.
func (s Set) Compare(o Set) int { return strings.Compare(s.Name, o.Name) }

// String is the ipset save form.
func (s Set) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "create %s %s", s.Name, s.Type)
	switch {
	case s.Type == BitmapPort:
		b.WriteString(" range 0-65535")
	case s.Type.Base() == BitmapPort:
	case s.Family == IPv6:
		fmt.Fprintf(&b, " family inet6 maxelem %d", s.MaxElem)
	default:
		fmt.Fprintf(&b, " family inet maxelem %d", s.MaxElem)
	}
	if s.Options != "" {
		b.WriteString(" " + s.Options)
	}
	if s.References > 0 {
		fmt.Fprintf(&b, " references %d", s.References)
	}
	return b.String()
}

func (s Set) command(v Verb, _ Object) string {
	if v == Remove {
		return "destroy " + s.Name
	}
	return s.String()
}

// Swap exchanges the content and capacity of two sets of one type. It is only ever
// an op.
type Swap struct{ From, To string }

// Kind is KindSwap.
func (Swap) Kind() Kind { return KindSwap }

// String is the ipset restore form.
func (s Swap) String() string { return "swap " + s.From + " " + s.To }

// HasSet reports whether a set of this name exists.
func (s *State) HasSet(name string) bool {
	_, ok := slices.BinarySearchFunc(s.Sets, name, func(t Set, name string) int { return strings.Compare(t.Name, name) })
	return ok
}

// foreignType reports whether svcproxy has no sets of this type.
func (s Set) foreignType() bool {
	switch s.Type.Base() {
	case HashIP, HashIPPort, HashIPPortIP, HashIPPortNet, BitmapPort, MapIPPort, MapIPPortSlot, HashNet, Meter, Tally:
		return false
	}
	return true
}

// parseSet reads: create NAME TYPE and options, some of which have a value.
func parseSet(f []string) (Set, error) {
	if len(f) < 3 {
		return Set{}, fmt.Errorf("create: want a name and a type")
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
				return Set{}, fmt.Errorf("set %s: %w", s.Name, err)
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
	return s, nil
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

// SetOptions are options that the sets of svcproxy never have. Their String is
// Set.Options.
type SetOptions struct {
	HasTimeout bool
	Timeout    uint32 // in seconds; 0 means forever, unless an entry has its own
	Netmask    uint8  // prefix length that addresses are cut to, 0 if they are not
	Counters   bool
	Comment    bool
	SKBInfo    bool
	ForceAdd   bool // a full set evicts entries
}

// String gives the options as ipset prints them.
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

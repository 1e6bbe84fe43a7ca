package kernel

import (
	"cmp"
	"fmt"
	"strings"
)

// Flowtable is where nftables keeps connections whose packets go past the rules, by the links that they come in by.
type Flowtable struct {
	Family Family
	Links  string // sorted, with commas in between, "" for none
}

// Each returns the links one by one.
func (t Flowtable) Each() []string {
	return strings.FieldsFunc(t.Links, func(r rune) bool { return r == ',' })
}

var flowtables = list[Flowtable]{
	get:     func(s State) []Flowtable { return s.Flowtables },
	set:     func(s *State, all []Flowtable) { s.Flowtables = all },
	compare: Flowtable.Compare,
	read:    parseFlowtable,
}

// Kind is KindFlowtable.
func (Flowtable) Kind() Kind { return KindFlowtable }

// Compare orders by family: each has one.
func (t Flowtable) Compare(o Flowtable) int { return cmp.Compare(t.Family, o.Family) }

// String is the canonical form. The tool nft has more words for it.
func (t Flowtable) String() string {
	return "flowtable " + t.Family.String() + " " + cmp.Or(t.Links, "-")
}

// parseFlowtable reads: flowtable FAMILY LINK,... or - without links
func parseFlowtable(f []string) (Flowtable, error) {
	for _, family := range [...]Family{IPv4, IPv6} {
		switch {
		case len(f) != 3 || f[1] != family.String():
		case f[2] == "-":
			return Flowtable{Family: family}, nil
		default:
			return Flowtable{family, f[2]}, nil
		}
	}
	return Flowtable{}, fmt.Errorf("want: flowtable %s|%s LINK,...|-", IPv4, IPv6)
}

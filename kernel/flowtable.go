package kernel

import (
	"cmp"
	"fmt"
)

// Flowtable is where nftables keeps connections whose packets go past the rules, by the links that they come in by.
type Flowtable struct {
	Family Family
	Links  string // sorted, with commas in between
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
func (t Flowtable) String() string { return "flowtable " + t.Family.String() + " " + t.Links }

// parseFlowtable reads: flowtable FAMILY LINK,...
func parseFlowtable(f []string) (Flowtable, error) {
	for _, family := range [...]Family{IPv4, IPv6} {
		if len(f) == 3 && f[1] == family.String() {
			return Flowtable{family, f[2]}, nil
		}
	}
	return Flowtable{}, fmt.Errorf("want: flowtable %s|%s LINK,...", IPv4, IPv6)
}

package sources

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Clients says who may use a service, and how fast. Services may share one: it never changes.
type Clients struct {
	// A client that is in none of Deny and DenyLists may use the service if it is in one of Allow and AllowLists, or if
	// both are empty. The prefixes are as PrefixesOf returns them, the names of lists are sorted.
	Allow, Deny           []netip.Prefix
	AllowLists, DenyLists []string

	Rate        Rate   // of new connections; zero = no limit
	Burst       uint32 // how many may come at once: Rate.Burst, if not given; 0 without a Rate
	Connections uint32 // open at once; 0 = no limit
	PerClient   bool   // each client address has its own Rate and number of Connections

	Reject bool // others are told so: TCP by a reset, UDP by ICMP. Else their packets are dropped
	Closed bool // with PerClient: clients for which the meter has no room get no connections. Else they have no limit
}

// Limited reports whether there is a limit, of whatever.
func (c *Clients) Limited() bool { return c != nil && (c.Rate.N != 0 || c.Connections != 0) }

// Lists returns the names of all lists of the two, which may be the same.
func (c *Clients) Lists() []string {
	if c == nil {
		return nil
	}
	return slices.Concat(c.AllowLists, c.DenyLists)
}

// Admits reports whether a client may use the service as far as its address goes, and if not, what denies it: a prefix,
// "@NAME", or "" if nothing allows it.
func (c *Clients) Admits(client netip.Addr, lists Lists) (ok bool, by string) {
	if by, in := within(client, c.Deny, c.DenyLists, lists); in {
		return false, by
	}
	if len(c.Allow)+len(c.AllowLists) == 0 {
		return true, ""
	}
	_, in := within(client, c.Allow, c.AllowLists, lists)
	return in, ""
}

func within(client netip.Addr, prefixes []netip.Prefix, names []string, lists Lists) (by string, in bool) {
	if p, in := Covering(prefixes, client); in {
		return p.String(), true
	}
	for _, name := range names {
		if l := lists.Named(name); l != nil {
			if _, in := Covering(l.Prefixes, client); in {
				return "@" + name, true
			}
		}
	}
	return "", false
}

// Rate is a number of new connections in a second, minute or hour.
type Rate struct {
	N   uint32
	Per time.Duration
}

// MostRate is the largest number in a Rate and the largest burst.
const MostRate = 1_000_000

var rateUnits = []struct {
	text string
	per  time.Duration
}{{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}}

// ParseRate reads a rate such as "50/s", "300/m" or "1000/h".
func ParseRate(s string) (Rate, error) {
	number, unit, _ := strings.Cut(s, "/")
	n, err := strconv.ParseUint(number, 10, 32)
	for _, u := range rateUnits {
		if unit == u.text && err == nil && 0 < n && n <= MostRate {
			return Rate{uint32(n), u.per}, nil
		}
	}
	return Rate{}, fmt.Errorf(`%q is not a rate such as "50/s", "300/m" or "1000/h": 1 to %d in a second, minute or hour`,
		s, MostRate)
}

// String returns the rate as ParseRate reads it.
func (r Rate) String() string {
	for _, u := range rateUnits {
		if u.per == r.Per {
			return fmt.Sprintf("%d/%s", r.N, u.text)
		}
	}
	return ""
}

// Burst is how many connections may come at once, unless a service says: those of one second, at least 5, but never
// more than N.
func (r Rate) Burst() uint32 {
	if r.N == 0 {
		return 0
	}
	return min(r.N, max(5, uint32(uint64(r.N)*uint64(time.Second)/uint64(r.Per))))
}

// List is a named list of networks, which Clients name. Nothing changes it: a list that has not changed is the same
// pointer in the next table.
type List struct {
	Name     string
	Prefixes []netip.Prefix // as PrefixesOf returns them
	Origin   Origin
}

// MostPrefixes is how many prefixes a list has at most.
const MostPrefixes = 100_000

// Lists are sorted by name.
type Lists []*List

// Named returns the list of a name, nil if there is none.
func (l Lists) Named(name string) *List {
	i, found := slices.BinarySearchFunc(l, name, func(l *List, name string) int { return strings.Compare(l.Name, name) })
	if !found {
		return nil
	}
	return l[i]
}

// PrefixesOf sorts prefixes and masks them, and leaves out those that another one covers. It keeps the slice.
func PrefixesOf(prefixes []netip.Prefix) []netip.Prefix {
	for i, p := range prefixes {
		prefixes[i] = p.Masked()
	}
	slices.SortFunc(prefixes, netip.Prefix.Compare)
	kept := prefixes[:0]
	for _, p := range prefixes {
		if n := len(kept); n == 0 || !kept[n-1].Overlaps(p) {
			kept = append(kept, p)
		}
	}
	return kept
}

// Covering returns which of some prefixes, as PrefixesOf returns them, has an address.
func Covering(prefixes []netip.Prefix, a netip.Addr) (netip.Prefix, bool) {
	i, found := slices.BinarySearchFunc(prefixes, a, func(p netip.Prefix, a netip.Addr) int {
		if p.Contains(a) {
			return 0
		}
		return p.Addr().Compare(a)
	})
	if !found {
		return netip.Prefix{}, false
	}
	return prefixes[i], true
}

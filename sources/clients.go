package sources

import (
	"cmp"
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
	PerClient   bool   // each client address, of IPv6 each /64, has its own Rate and number of Connections

	Reject bool // others are told so: TCP by a reset, UDP by ICMP. Else their packets are dropped
	Closed bool // with PerClient: clients for which the meter has no room get no connections. Else they have no limit
}

// Limited reports whether there is a limit, of whatever.
func (c *Clients) Limited() bool { return c != nil && (c.Rate.N != 0 || c.Connections != 0) }

// Allowed returns Allow and AllowLists as services.toml has them: "10.0.0.0/8", "@office".
func (c *Clients) Allowed() []string { return texts(c.Allow, c.AllowLists) }

// Denied does so with Deny and DenyLists.
func (c *Clients) Denied() []string { return texts(c.Deny, c.DenyLists) }

func texts(prefixes []netip.Prefix, lists []string) (all []string) {
	for _, p := range prefixes {
		all = append(all, p.String())
	}
	for _, name := range lists {
		all = append(all, "@"+name)
	}
	return all
}

// Limits returns the limits in words; "" if there is none.
func (c *Clients) Limits() string {
	var words []string
	each := ""
	if c.PerClient {
		each = " for each client"
	}
	if c.Rate.N != 0 {
		words = append(words, fmt.Sprintf("%s%s, burst %d", c.Rate, each, c.Burst))
	}
	if c.Connections != 0 {
		words = append(words, Count(int(c.Connections), "connection")+each)
	}
	if c.Reject {
		words = append(words, "others are refused")
	}
	if c.Closed {
		words = append(words, "closed when full")
	}
	return strings.Join(words, ", ")
}

// clients applies the rules about who may use a service.
func (v *validation) clients(s *Service) {
	if s.Clients == nil {
		return
	}
	if s.FWMark != 0 {
		v.refuse(s, "fwmark = %d has no address, by which allow, deny and limits find its packets: let the rules that mark "+
			"packets leave some unmarked", s.FWMark)
	}
	for _, p := range s.Clients.Deny {
		if p.Bits() == 0 {
			v.refuse(s, "deny = %q would let no %s client in: remove the service, or allow those that may use it", p,
				family(p.Addr()))
		}
	}
}

// lists warns of lists that are missing, and of those that let no client in.
func (j *judgement) lists(t Table) {
	for _, s := range t.Services.All() {
		if s.Clients == nil || s.Origin.File == "" {
			continue
		}
		missing := func(key, name, effect string) {
			if t.Lists.Named(name) == nil {
				j.doubt(s, `%s: there is no list @%s, so %s: make the file %s in the folder of sources.file.lists`, key, name,
					effect, name)
			}
		}
		for _, name := range s.Clients.AllowLists {
			missing("allow", name, "it lets no client in")
		}
		for _, name := range s.Clients.DenyLists {
			missing("deny", name, "it keeps no client out")
			if l := t.Lists.Named(name); l != nil {
				for _, p := range l.Prefixes {
					if p.Bits() == 0 {
						j.doubt(s, "deny: list @%s has %s, so no %s client may connect", name, p, family(p.Addr()))
					}
				}
			}
		}
	}
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

// MostNetworks is how many a service allows, and how many it denies, without those of lists.
const MostNetworks = 1000

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
	slices.SortFunc(prefixes, func(a, b netip.Prefix) int { // Prefix.Compare would mask them again
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
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

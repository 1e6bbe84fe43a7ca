package kernel

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
)

// Addr is an address on a device. It makes a VIP local.
type Addr struct {
	Addr netip.Addr
	Link string
}

var addrs = list[Addr]{
	get:     func(s State) []Addr { return s.Addrs },
	set:     func(s *State, all []Addr) { s.Addrs = all },
	compare: Addr.Compare,
	same:    sameAddr,
	read:    parseAddr,
}

// Kind is KindAddr.
func (Addr) Kind() Kind { return KindAddr }

// VIP makes Addr a Local.
func (a Addr) VIP() netip.Addr { return a.Addr }

// Compare orders by link and address.
func (a Addr) Compare(o Addr) int {
	return cmp.Or(strings.Compare(a.Link, o.Link), a.Addr.Compare(o.Addr))
}

func sameAddr(a, b *Addr) bool { return a.Addr == b.Addr && a.Link == b.Link }

// String is the ip -batch form.
func (a Addr) String() string {
	return fmt.Sprintf("addr add %s/%d dev %s", a.Addr, a.Addr.BitLen(), a.Link)
}

func (a Addr) command(v Verb, _ Object) string { return addOrDel(v, a) }

// parseAddr reads: addr add ADDRESS/LENGTH dev NAME.
func parseAddr(f []string) (Addr, error) {
	if len(f) != 5 || f[1] != "add" || f[3] != "dev" {
		return Addr{}, fmt.Errorf("want: addr add ADDRESS/LENGTH dev NAME")
	}
	a, err := netip.ParsePrefix(f[2])
	if err != nil || !a.IsSingleIP() {
		return Addr{}, fmt.Errorf("address %q: want the full length, /32 or /128", f[2])
	}
	return Addr{Addr: a.Addr(), Link: f[4]}, nil
}

// addOrDel is the text of an object, with del for add where it is removed.
func addOrDel(v Verb, o Object) string {
	text := o.String()
	if v == Remove {
		return strings.Replace(text, "add ", "del ", 1)
	}
	return text
}

// Local is an object that makes a VIP local: an Addr or a Route.
type Local interface {
	Object
	VIP() netip.Addr
}

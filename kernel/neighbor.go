package kernel

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
)

// Neighbor makes the node answer neighbour solicitations for an IPv6 VIP on a
// link. For IPv4 VIPs the kernel answers ARP requests without it.
type Neighbor struct {
	Addr netip.Addr
	Link string
}

var neighbors = list[Neighbor]{
	get:     func(s State) []Neighbor { return s.Neighbors },
	set:     func(s *State, all []Neighbor) { s.Neighbors = all },
	compare: Neighbor.Compare,
	read:    parseNeighbor,
}

// Kind is KindNeighbor.
func (Neighbor) Kind() Kind { return KindNeighbor }

// Compare orders by link and address.
func (n Neighbor) Compare(o Neighbor) int {
	return cmp.Or(strings.Compare(n.Link, o.Link), n.Addr.Compare(o.Addr))
}

// String is the ip -batch form.
func (n Neighbor) String() string { return fmt.Sprintf("neigh add proxy %s dev %s", n.Addr, n.Link) }

func (n Neighbor) command(v Verb, _ Object) string { return addOrDel(v, n) }

// parseNeighbor reads: neigh add proxy ADDRESS dev NAME.
func parseNeighbor(f []string) (Neighbor, error) {
	if len(f) != 6 || strings.Join(f[:3], " ") != "neigh add proxy" || f[4] != "dev" {
		return Neighbor{}, fmt.Errorf("want: neigh add proxy ADDRESS dev NAME")
	}
	a, err := netip.ParseAddr(f[3])
	if err != nil || a.Zone() != "" {
		return Neighbor{}, fmt.Errorf("neighbour %q: want an address", f[3])
	}
	return Neighbor{Addr: a, Link: f[5]}, nil
}

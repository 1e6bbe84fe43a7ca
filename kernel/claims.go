package kernel

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Claim is a VIP that this node answers for on a link. The VIP is inside a network of
// the link, whose hosts ask for it by ARP or ND.
type Claim struct {
	Addr netip.Addr
	Link string
}

// Taken is a claim for which another host answered, with its MAC address as text.
type Taken struct {
	Claim
	MAC string
}

// Compare orders by address and link.
func (c Claim) Compare(o Claim) int {
	return cmp.Or(c.Addr.Compare(o.Addr), strings.Compare(c.Link, o.Link))
}

func (c Claim) String() string { return fmt.Sprintf("%s dev %s", c.Addr, c.Link) }

func (t Taken) String() string {
	return fmt.Sprintf("%s is not bound: another host, %s on %s, answers for it", t.Addr, t.MAC, t.Link)
}

// IsLocal reports whether a VIP is local by an owned address or route.
func (o *Observed) IsLocal(vip netip.Addr) bool {
	_, bound := slices.BinarySearchFunc(o.Addrs, Addr{Addr: vip, Link: o.Names.Device}, Addr.Compare)
	_, routed := slices.BinarySearchFunc(o.Routes, Route{Addr: vip}, Route.Compare)
	return bound || routed
}

func (p Policy) appendClaims(b *strings.Builder) {
	if p.Probe {
		b.WriteString(directive + "probe\n")
	}
	for _, c := range p.Claims {
		fmt.Fprintf(b, "%sclaim %s\n", directive, c)
	}
}

// claim reads: claim or probed ADDRESS dev LINK, or taken ADDRESS dev LINK by MAC.
func (p *parser) claim(f []string) error {
	if len(f) < 4 || f[0] == "taken" && len(f) < 6 {
		return fmt.Errorf("want: %s ADDRESS dev LINK, and by MAC of what is taken", f[0])
	}
	a, err := netip.ParseAddr(f[1])
	if err != nil || a.Zone() != "" {
		return fmt.Errorf("%s %q: want an address", f[0], f[1])
	}
	c := Claim{Addr: a, Link: f[3]}
	switch f[0] {
	case "claim":
		p.o.Policy.Claims = append(p.o.Policy.Claims, c)
	case "probed":
		p.now.Probed = append(p.now.Probed, c)
	default:
		p.now.Taken = append(p.now.Taken, Taken{Claim: c, MAC: f[5]})
	}
	return nil
}

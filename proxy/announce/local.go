package announce

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// locality reports whether a VIP is local to the node.
type locality int

const (
	there locality = iota // or it need not be
	asked                 // other hosts on its links are asked whether they have it
	taken                 // another host has it
	lost                  // no sync has made it local yet
)

// localOf returns whether a VIP is local, and why not. One that is stays so: other hosts are not asked again.
func (d *decider) localOf(addr netip.Addr) (why string, is locality) {
	if !d.wantsLocal(addr) || d.Have.IsLocal(addr) {
		return "", there
	}
	why, is = "the node has no address or route for it", lost
	p := &d.Want.Policy
	start, _ := slices.BinarySearchFunc(p.Claims, addr, func(c kernel.Claim, a netip.Addr) int {
		return c.Addr.Compare(a)
	})
	for _, c := range p.Claims[start:] {
		if c.Addr != addr || !p.Probe {
			break
		}
		i, found := slices.BinarySearchFunc(d.Taken, c, func(t kernel.Taken, c kernel.Claim) int { return t.Compare(c) })
		if found {
			t := &d.Taken[i]
			return fmt.Sprintf("not taken over: another host, %s on %s, answers for it", t.MAC, t.Link), taken
		}
		if _, free := slices.BinarySearchFunc(d.Probed, c, kernel.Claim.Compare); !free {
			why, is = "other hosts are asked whether they have it", asked
		}
	}
	return why, is
}

// wantsLocal reports whether an address is to be made local.
func (d *decider) wantsLocal(addr netip.Addr) bool {
	_, routed := slices.BinarySearchFunc(d.Want.Routes, addr, func(r kernel.Route, a netip.Addr) int {
		return r.Addr.Compare(a)
	})
	return routed || slices.ContainsFunc(d.Want.Addrs, func(x kernel.Addr) bool { return x.Addr == addr })
}

package plan

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// Claims returns the claims on the VIPs that ops make local, for announcing them.
func Claims(p kernel.Policy, ops []kernel.Op) []kernel.Claim {
	if len(p.Claims) == 0 {
		return nil
	}
	var claims []kernel.Claim
	for _, o := range ops {
		if l, ok := o.Object.(kernel.Local); ok && o.Verb == kernel.Add {
			claims = append(claims, claimsOn(p, l.VIP())...)
		}
	}
	return claims
}

// claimsOn returns the part of the claims that has a VIP.
func claimsOn(p kernel.Policy, vip netip.Addr) []kernel.Claim {
	start, _ := slices.BinarySearchFunc(p.Claims, vip, func(c kernel.Claim, a netip.Addr) int { return c.Addr.Compare(a) })
	end := start
	for end < len(p.Claims) && p.Claims[end].Addr == vip {
		end++
	}
	return p.Claims[start:end]
}

// disputed says whether a VIP that is not local yet has to wait: until its links have
// been probed, or while another host answers for it. Two hosts that answer for one
// address lose each other's connections.
func (d *differ) disputed(vip netip.Addr) bool {
	if !d.want.Policy.Probe {
		return false
	}
	claims := claimsOn(d.want.Policy, vip)
	if len(claims) == 0 || d.have.IsLocal(vip) {
		return false
	}
	waits := false
	for _, c := range claims {
		i, taken := slices.BinarySearchFunc(d.now.Taken, c, func(t kernel.Taken, c kernel.Claim) int { return t.Compare(c) })
		_, probed := slices.BinarySearchFunc(d.now.Probed, c, kernel.Claim.Compare)
		switch {
		case taken:
			d.plan.Taken = append(d.plan.Taken, d.now.Taken[i])
		case !probed:
			d.plan.Probes = append(d.plan.Probes, c)
		}
		waits = waits || taken || !probed
	}
	if waits {
		mark(&d.waiting, vip, true)
	}
	return waits
}

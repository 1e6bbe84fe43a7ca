package sources

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// award gives each contested port to one service and withholds it from the others.
func (c *contest) award() {
	if len(c.rivals) == 0 {
		return
	}
	holders := c.holders()
	for k, all := range c.rivals {
		if k.Port == 0 && k.Protocol != FWMark {
			continue
		}
		winner := c.best(k, all, holders)
		c.held = append(c.held, Holding{k, c.services[winner.service].FullName()})
		why := fmt.Sprintf("%s is taken by %s", k, owner(c.services[winner.service].Service))
		for _, w := range all {
			if w.service != winner.service {
				c.withhold(w.service, k, why)
			}
		}
	}
}

func (c *contest) holders() map[Holding]bool {
	if c.before == nil {
		return nil
	}
	return c.before.holders(c.rivals)
}

// separate decides whether an address that services claim as a VIP and as an endpoint is a VIP or an endpoint. A
// service that claims it as both does not count as a claimant of the VIP. It loses the VIP, and the endpoint may
// serve its other addresses.
func (c *contest) separate(addrs []netip.Addr) {
	if len(addrs) == 0 {
		return
	}
	holders := c.holders()
	for _, a := range addrs {
		vip, target := Claim{Addr: a}, Claim{Addr: a, Endpoint: true}
		users := c.rivals[target]
		user := c.best(target, users, holders)
		others := slices.DeleteFunc(slices.Clone(c.rivals[vip]), func(w want) bool {
			return slices.ContainsFunc(users, func(u want) bool { return u.service == w.service })
		})
		if len(others) > 0 {
			server := c.best(vip, others, holders)
			if c.compare(c.grade(vip, server, holders), server, c.grade(target, user, holders), user) < 0 {
				of := owner(c.services[others[0].service].Service)
				c.lose(target, vip, fmt.Sprintf("endpoint %s is a VIP of %s: bound on this node it cannot be reached", a, of))
				continue
			}
		}
		of := "an endpoint of " + owner(c.services[users[0].service].Service)
		if len(others) == 0 {
			of = "also an endpoint"
		}
		c.lose(vip, target, fmt.Sprintf("VIP %s is %s: bound on this node it could no longer be reached", a, of))
	}
}

// lose withholds one claim from all services, because others hold the claim that excludes it.
func (c *contest) lose(lost, kept Claim, why string) {
	for _, w := range c.rivals[lost] {
		c.withhold(w.service, lost, why)
	}
	for _, w := range c.rivals[kept] {
		c.held = append(c.held, Holding{kept, c.services[w.service].FullName()})
	}
}

func (c *contest) withhold(i int, k Claim, why string) {
	s := &c.services[i]
	s.withheld = append(s.withheld, Withheld{k, why})
}

// best returns which of several services gets a claim.
func (c *contest) best(k Claim, all []want, holders map[Holding]bool) want {
	best := all[0]
	for _, w := range all[1:] {
		if c.compare(c.grade(k, w, holders), w, c.grade(k, best, holders), best) < 0 {
			best = w
		}
	}
	return best
}

// grade returns 0 for a service that had the claim before, 1 for one that was served before, and 2 for others.
func (c *contest) grade(k Claim, w want, holders map[Holding]bool) int {
	s := c.services[w.service].Service
	switch {
	case c.before == nil:
		return 2
	case len(holders) > 0 && holders[Holding{k, s.FullName()}]:
		return 0
	case c.before.served(s):
		return 1
	}
	return 2
}

func (c *contest) compare(gradeA int, a want, gradeB int, b want) int {
	s, t := &c.services[a.service], &c.services[b.service]
	if order := cmp.Or(cmp.Compare(gradeA, gradeB), cmp.Compare(s.at.table, t.at.table)); order != 0 {
		return order
	}
	if s.Origin.File == "" && t.Origin.File == "" {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.service, b.service))
	}
	return cmp.Compare(a.service, b.service)
}

// owner names a service in a message about another one.
func owner(s *Service) string {
	return fmt.Sprintf("%s (%s)", s.DisplayName(), s.Origin)
}

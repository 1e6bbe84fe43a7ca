package sources

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// contest finds what several services want and only one can have, and who gets it: of those that have it
// already the first, else of those that were served already the first, else the first. The first is that of
// the earlier table and there of the earlier file and line. What an API server gives has no files: there a
// cluster IP goes before a load balancer IP, that before an endpoint, and that before an external IP.
type contest struct {
	host     HostFacts
	before   seniority // nil = nothing was served before
	services []contender
	claims   map[Claim]want
	rivals   map[Claim][]want // all who want a claim, of those that more than one wants
	held     []Holding        // who gets these
}

// contender is a service in the order in which they win, and what it does not get.
type contender struct {
	*Service
	at       place
	out      string // why it is left out whole; "" = it is not
	withheld []Withheld
}

// want is a service's wish for a claim; services are named by index.
type want struct {
	service int
	rank    rank
}

// seniority is what was served before.
type seniority interface {
	// served says whether a service was, as one of the same source and file.
	served(*Service) bool
	// holders are who had claims, of those asked for.
	holders(map[Claim][]want) map[Holding]bool
}

// judge gives each service of the tables what it can have.
func judge(host HostFacts, before seniority, tables ...Table) *contest {
	c := &contest{host: host, before: before}
	n := 0
	for _, t := range tables {
		n += len(t.Services)
	}
	c.services = make([]contender, 0, n)
	for i, t := range tables {
		for _, j := range byOrigin(t.Services) {
			c.services = append(c.services, contender{Service: &t.Services[j], at: place{i, j}})
		}
	}
	c.names()
	c.claims = make(map[Claim]want, n)
	c.rivals = map[Claim][]want{}
	for i := range c.services {
		c.claim(i)
	}
	addrs := c.ambiguous()
	c.award()
	c.separate(addrs)
	slices.SortFunc(c.held, Holding.compare)
	for i := range c.services {
		slices.SortStableFunc(c.services[i].withheld, func(a, b Withheld) int { return a.Claim.Compare(b.Claim) })
	}
	return c
}

// names leaves out all services of one name but one.
func (c *contest) names() {
	first := make(map[[2]string]int, len(c.services))
	for i := range c.services {
		s := &c.services[i]
		name := [2]string{s.Namespace, s.Name}
		j, taken := first[name]
		if !taken {
			first[name] = i
			continue
		}
		winner, loser := &c.services[j], s
		if c.before != nil && c.before.served(s.Service) && !c.before.served(winner.Service) {
			winner, loser = loser, winner
			first[name] = i
		}
		loser.out = fmt.Sprintf("the name is taken by %s", owner(winner.Service))
	}
}

// claim notes what a service must have.
func (c *contest) claim(i int) {
	s := &c.services[i]
	if s.out != "" || !s.Type.Serves() {
		return
	}
	s.claims(func(k Claim, r rank) { c.want(k, want{i, r}) })
}

func (c *contest) want(k Claim, w want) {
	first, taken := c.claims[k]
	switch {
	case !taken:
		c.claims[k] = w
	case first.service == w.service:
	default:
		if c.rivals[k] == nil {
			c.rivals[k] = []want{first}
		}
		if all := c.rivals[k]; all[len(all)-1].service != w.service {
			c.rivals[k] = append(all, w)
		}
	}
}

// ambiguous are the addresses that are both a VIP to be bound on this node and an endpoint. Who wants them
// as what is noted.
func (c *contest) ambiguous() []netip.Addr {
	vips := make(map[netip.Addr]bool, len(c.services))
	c.each(func(s *contender, _ int) {
		c.bound(s.Service, func(a netip.Addr, _ rank) { vips[a] = true })
	})
	endpoints := map[netip.Addr]bool{}
	c.each(func(s *contender, i int) {
		for j := range s.Endpoints {
			if a := s.Endpoints[j].Addr; vips[a] {
				endpoints[a] = true
				c.rivals[Claim{Addr: a, Endpoint: true}] = append(c.rivals[Claim{Addr: a, Endpoint: true}], want{i, endpoint})
			}
		}
	})
	if len(endpoints) == 0 {
		return nil
	}
	c.each(func(s *contender, i int) {
		c.bound(s.Service, func(a netip.Addr, r rank) {
			if endpoints[a] {
				c.rivals[Claim{Addr: a}] = append(c.rivals[Claim{Addr: a}], want{i, r})
			}
		})
	})
	var list []netip.Addr
	for a := range endpoints {
		if unfit(a) == "" { // else nothing could be served there anyway
			list = append(list, a)
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return list
}

func (c *contest) each(f func(s *contender, i int)) {
	for i := range c.services {
		if s := &c.services[i]; s.out == "" && s.Type.Serves() {
			f(s, i)
		}
	}
}

// bound calls f with the VIPs that will be addresses of this node because of a service: those that the node
// does not have on another link. Where its addresses are not known, an external IP may be one of them.
func (c *contest) bound(s *Service, f func(netip.Addr, rank)) {
	known := len(c.host.Addrs) > 0
	take := func(a netip.Addr, r rank) {
		if !known || !c.host.owns(a) {
			f(a, r)
		}
	}
	for _, a := range s.ClusterIPs {
		take(a, allocated)
	}
	for _, vip := range s.LoadBalancerIPs {
		if vip.Mode != IPModeProxy && (known || !slices.Contains(s.ExternalIPs, vip.Addr)) {
			take(vip.Addr, balanced)
		}
	}
	if known {
		for _, a := range s.ExternalIPs {
			take(a, external)
		}
	}
}

// award gives each port that several want to one of them, and withholds it from the others.
func (c *contest) award() {
	if len(c.rivals) == 0 {
		return
	}
	holders := c.holders()
	for k, all := range c.rivals {
		if k.Port == 0 {
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

// separate decides of each address that is a VIP and an endpoint what it is. A service with both does not
// count as one that wants the VIP: it is left out there, and its endpoint may serve its other addresses.
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

// lose withholds one claim from all who want it, for the sake of those who want another one.
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

// best is who of several gets a claim.
func (c *contest) best(k Claim, all []want, holders map[Holding]bool) want {
	best := all[0]
	for _, w := range all[1:] {
		if c.compare(c.grade(k, w, holders), w, c.grade(k, best, holders), best) < 0 {
			best = w
		}
	}
	return best
}

// grade is 0 for a service that had the claim before, 1 for one that was served before, else 2.
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

// owner is a service as others are told of it.
func owner(s *Service) string {
	name := s.Name
	if s.Namespace != DefaultNamespace {
		name = s.FullName()
	}
	return fmt.Sprintf("%s (%s)", name, s.Origin)
}

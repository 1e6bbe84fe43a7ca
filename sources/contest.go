package sources

import (
	"fmt"
	"net/netip"
	"slices"
)

// contest finds the claims that several services make and decides who gets each. It prefers the service that had the
// claim before, then one that was served before, then the first one. The first service is that of the earlier table,
// and in one table that of the earlier file and line. Services of an API server have no files. Their order is:
// cluster IP, load balancer IP, endpoint, external IP.
type contest struct {
	host     HostFacts
	before   seniority // nil = nothing was served before
	services []contender
	claims   map[Claim]want   // the first service that makes each
	rivals   map[Claim][]want // all services that make a claim, if there are several
	held     []Holding        // who gets the claims of rivals
	full     bool             // there is no room for some services
}

// contender is a service and what it does not get.
type contender struct {
	*Service
	at       place
	out      string // why all of it is left out; "" if it is not
	withheld []Withheld
}

// want is the claim of the service with this index in contest.services.
type want struct {
	service int
	rank    rank
}

// seniority is what was served before a merge.
type seniority interface {
	// served reports whether a service of this name was served, from the same source and file.
	served(*Service) bool
	// grown reports whether it is known to have been smaller.
	grown(*Service) bool
	// holders returns who had which of the given claims.
	holders(map[Claim][]want) map[Holding]bool
}

// judge decides the contests in some tables.
func judge(host HostFacts, before seniority, tables ...Table) *contest {
	c := &contest{host: host, before: before}
	n := 0
	for _, t := range tables {
		n += t.Services.Len()
	}
	c.services = make([]contender, 0, n)
	for i, t := range tables {
		for _, j := range byOrigin(t.Services) {
			c.services = append(c.services, contender{Service: t.Services.At(j), at: place{i, j}})
		}
	}
	c.limits()
	c.names()
	c.room(tables)
	c.claims = make(map[Claim]want, n)
	c.rivals = map[Claim][]want{}
	for i := range c.services {
		c.claim(i)
	}
	addrs := c.ambiguous()
	c.award()
	c.separate(addrs)
	SortFunc(c.held, Holding.compare)
	for i := range c.services {
		SortStableFunc(c.services[i].withheld, func(a, b Withheld) int { return a.Claim.Compare(b.Claim) })
	}
	return c
}

// names leaves out all but one of the services with the same name that the node can serve.
func (c *contest) names() {
	first := make(map[[2]string]int, len(c.services))
	for i := range c.services {
		s := &c.services[i]
		if s.out != "" {
			continue
		}
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

// limits leaves out services whose clients the node could not refuse, so that they take no name and no claim from one
// that is served.
func (c *contest) limits() {
	for i := range c.services {
		s := &c.services[i]
		s.out = c.host.leavesLimits(s.Service)
	}
}

// room leaves out the services for which the node has no room, so that they take no claim from one that is served.
func (c *contest) room(tables []Table) {
	left := map[place]outcome{}
	for i := range c.services {
		if s := &c.services[i]; s.out != "" {
			left[s.at] = outcome{out: true}
		}
	}
	excess := map[place]string{}
	for _, x := range bound(c.host.most(), c.before, left, tables) {
		excess[x.at] = x.why
	}
	if c.full = len(excess) > 0; !c.full {
		return
	}
	for i := range c.services {
		if s := &c.services[i]; s.out == "" {
			s.out = excess[s.at]
		}
	}
}

// claim notes the claims of a service to ports.
func (c *contest) claim(i int) {
	s := &c.services[i]
	if s.out != "" || !s.Type.Serves() {
		return
	}
	for a := range s.Addresses {
		c.want(a.Claim(), want{i, a.Kind.rank()})
	}
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

// ambiguous returns the addresses that are both an endpoint and a VIP that is bound on this node. It notes in rivals
// which services claim them as a VIP and which as an endpoint.
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
		if unfit(a) == "" { // else they cannot be served anyway
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

// bound calls f with the VIPs that will be bound on this node for a service: those that are not addresses of it
// already, and not its gateway. If the node's addresses are not known, external IPs are omitted, because they may be
// such addresses.
func (c *contest) bound(s *Service, f func(netip.Addr, rank)) {
	known := len(c.host.Addrs) > 0
	for kind, a := range s.VIPs {
		switch {
		case known && c.host.owns(a), c.host.cutOff(a):
		case !known && (kind == KindExternalIP || kind == KindLoadBalancerIP && slices.Contains(s.ExternalIPs, a)):
		default:
			f(a, kind.rank())
		}
	}
}

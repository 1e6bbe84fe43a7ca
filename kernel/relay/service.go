package relay

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
)

// service is a virtual server.
type service struct {
	r      *Relay
	key    kernel.VirtualKey
	ctx    context.Context // ends when its connections are cut
	cancel context.CancelFunc

	listener *listener // guarded by r.mu
	traffic  traffic

	mu        sync.Mutex
	virtual   kernel.Virtual
	endpoints []*endpoint // sorted by address
	schedule  schedule
	templates templates
	gone      bool // its connections are cut
}

// endpoint is a real server. The mutex of its service guards what is not atomic.
type endpoint struct {
	addr   netip.AddrPort
	text   string // addr, for the dialer
	hash   uint64 // of addr
	weight uint32
	// It is full from upper connections on, until there are fewer than lower; see kernel.Real.
	upper, lower uint32
	full         bool
	// inactive counts connections that are being made or half closed, and flows.
	active, inactive atomic.Int64
	persist          int   // templates
	current          int64 // of schedule
	gone             bool
	users            map[user]struct{}
	unanswered       []time.Time // connections over TCP since it answered one
	traffic          traffic
}

// user is a connection or a flow that ends with its endpoint.
type user interface{ abort() }

// newService makes a virtual server that listens and does not take connections yet. r.mu is held.
func (r *Relay) newService(v kernel.Virtual) (*service, error) {
	s := &service{r: r, key: v.Key, virtual: v}
	s.ctx, s.cancel = context.WithCancel(r.ctx)
	var err error
	if s.listener, err = s.listen(r.at(v.Key)); err != nil {
		s.cancel()
		return nil, err
	}
	return s, nil
}

// change takes new settings. Connections stay where they are.
func (s *service) change(v kernel.Virtual) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.Flags&kernel.FlagPersistent == 0 || v.Netmask != s.virtual.Netmask {
		s.templates.clear()
	}
	s.virtual = v
	s.schedule.stale = true
}

// real adds, changes or removes an endpoint. Removing it resets its connections.
func (s *service) real(verb kernel.Verb, o kernel.Real) error {
	s.mu.Lock()
	i, found := slices.BinarySearchFunc(s.endpoints, o.Key.Addr, func(e *endpoint, a netip.AddrPort) int {
		return e.addr.Compare(a)
	})
	var users map[user]struct{}
	var err error
	switch {
	case verb == kernel.Add && found:
		err = refused("there is such a real server already", syscall.EEXIST)
	case verb != kernel.Add && !found:
		err = refused("no such real server", syscall.ENOENT)
	case verb == kernel.Add:
		s.schedule.inserted(i)
		s.endpoints = slices.Insert(s.endpoints, i, newEndpoint(o))
	case verb == kernel.Change:
		s.endpoints[i].set(o)
		s.schedule.stale = true
	case verb == kernel.Remove:
		e := s.endpoints[i]
		e.gone = true
		users = e.users
		s.schedule.removed(i)
		s.endpoints = slices.Delete(s.endpoints, i, i+1)
	}
	s.mu.Unlock()
	abort(users, &s.mu)
	return err
}

func newEndpoint(o kernel.Real) *endpoint {
	e := &endpoint{addr: o.Key.Addr, text: o.Key.Addr.String(), hash: hashAddrPort(o.Key.Addr), users: map[user]struct{}{}}
	e.set(o)
	return e
}

// set takes the settings of a real server.
func (e *endpoint) set(o kernel.Real) {
	e.weight, e.upper, e.lower = o.Weight, o.Upper, o.Lower
	e.fill()
}

// fill finds out whether the endpoint is full, as IPVS does (ip_vs_bind_dest, ip_vs_unbind_dest).
func (e *endpoint) fill() {
	switch n := e.active.Load() + e.inactive.Load(); {
	case n >= int64(e.upper):
		e.full = e.upper != 0
	case e.lower != 0:
		e.full = e.full && n >= int64(e.lower)
	default:
		e.full = e.full && 4*n >= 3*int64(e.upper)
	}
}

// abort ends the users of an endpoint that gets no more. Each takes itself out of the map, which
// the mutex guards.
func abort(users map[user]struct{}, mu *sync.Mutex) {
	mu.Lock()
	all := make([]user, 0, len(users))
	for u := range users {
		all = append(all, u)
	}
	mu.Unlock()
	for _, u := range all {
		u.abort()
	}
}

// cut resets all connections of a virtual server that no longer listens.
func (s *service) cut() {
	s.cancel()
	s.mu.Lock()
	s.gone = true
	endpoints := s.endpoints
	s.mu.Unlock()
	for _, e := range endpoints {
		abort(e.users, &s.mu)
	}
}

// choice is the endpoint that was chosen for a connection.
type choice struct {
	to       *endpoint
	template *template     // nil without affinity
	counted  *atomic.Int64 // where the endpoint counts it
}

// pick chooses an endpoint for a client, none of those excluded. It is nil if there is none.
// Callers give the choice back with leave.
func (s *service) pick(client netip.AddrPort, exclude []*endpoint) *choice {
	usable := func(e *endpoint) bool { return e.weight > 0 && !slices.Contains(exclude, e) }
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &choice{}
	persistent := s.virtual.Flags&kernel.FlagPersistent != 0
	var who netip.Addr
	if persistent {
		who = maskedBy(client.Addr(), s.virtual.Netmask)
		c.template = s.templates.find(who, s.r.limits.now(), s.timeout())
		if t := c.template; t != nil && !t.to.gone && usable(t.to) {
			c.to = t.to
		}
	}
	if c.to == nil {
		// As in IPVS, a client stays with an endpoint that is full.
		free := func(e *endpoint) bool { return !e.full && usable(e) }
		c.to = s.schedule.choose(&s.virtual, s.endpoints, client, len(exclude) > 0, free)
	}
	if c.to == nil {
		return nil
	}
	if persistent {
		c.template = s.templates.use(who, c.to, s.r.limits.now(), s.r.limits.templates)
	}
	c.count(&c.to.inactive)
	c.to.fill()
	return c
}

// count moves the choice to another counter of its endpoint, or to none.
func (c *choice) count(to *atomic.Int64) {
	if to != nil {
		to.Add(1)
	}
	if c.counted != nil {
		c.counted.Add(-1)
	}
	c.counted = to
}

// enter says that u uses the chosen endpoint. It is false if that was removed meanwhile.
func (s *service) enter(c *choice, u user) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.to.gone || s.gone {
		return false
	}
	c.to.users[u] = struct{}{}
	c.to.unanswered = nil
	c.to.traffic.conns.Add(1)
	s.traffic.conns.Add(1)
	s.r.total.conns.Add(1)
	return true
}

// leave ends the use of an endpoint. u is nil if enter was not called.
func (s *service) leave(c *choice, u user) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u != nil {
		delete(c.to.users, u)
	}
	c.count(nil)
	c.to.fill()
	if c.template != nil {
		s.templates.leave(c.template, s.r.limits.now())
	}
}

func maskedBy(a netip.Addr, bits uint8) netip.Addr {
	p, err := a.WithZone("").Prefix(int(bits))
	if err != nil {
		return a
	}
	return p.Addr()
}

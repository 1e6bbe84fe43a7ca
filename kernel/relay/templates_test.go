package relay

import (
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
)

// clock is a time that tests move.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

// at makes a service that listens nowhere, with two endpoints.
func persistentService(t testing.TB, c *clock, seconds uint32, netmask uint8) *service {
	r := newRelay(t, Options{})
	r.limits.now = c.Now
	s := &service{r: r, virtual: kernel.Virtual{Scheduler: "rr", Flags: kernel.FlagPersistent, Timeout: seconds, Netmask: netmask}}
	s.endpoints = endpointsOf(1, 1)
	return s
}

func client(a string) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(a), 1000) }

func TestAffinity(t *testing.T) {
	c := &clock{time.Unix(1000, 0)}
	s := persistentService(t, c, 100, 32)
	a, b := s.pick(client("192.0.2.1"), nil), s.pick(client("192.0.2.2"), nil)
	if a.to == b.to {
		t.Fatal("two clients have one endpoint")
	}
	for range 5 {
		again := s.pick(client("192.0.2.1"), nil)
		if again.to != a.to {
			t.Fatal("the client moved")
		}
		s.leave(again, nil)
	}
	if a.to.persist != 1 || b.to.persist != 1 {
		t.Errorf("templates: %d and %d", a.to.persist, b.to.persist)
	}

	// While it has a connection, a client stays; after the last one for the timeout.
	s.leave(b, nil)
	c.now = c.now.Add(101 * time.Second)
	if got := s.templates.find(client("192.0.2.2").Addr(), c.now, s.timeout()); got != nil || b.to.persist != 0 {
		t.Errorf("not expired: %+v", got)
	}
	s.leave(a, nil)
	c.now = c.now.Add(99 * time.Second)
	if again := s.pick(client("192.0.2.1"), nil); again.to != a.to {
		t.Error("expired too early")
	} else {
		s.leave(again, nil)
	}

	// An endpoint that drains, is dead or gone loses its clients for good.
	a.to.weight = 0
	moved := s.pick(client("192.0.2.1"), nil)
	if moved.to == a.to {
		t.Error("a new connection to an endpoint that drains")
	}
	a.to.weight = 1
	if again := s.pick(client("192.0.2.1"), nil); again.to != moved.to {
		t.Error("the client moved back")
	}
	dead := s.pick(client("192.0.2.1"), []*endpoint{moved.to})
	if dead.to != a.to {
		t.Errorf("%v", dead.to)
	}
	if a.to.persist != 1 || moved.to.persist != 0 {
		t.Errorf("templates: %d and %d", a.to.persist, moved.to.persist)
	}
}

func TestAffinityNetmask(t *testing.T) {
	s := persistentService(t, &clock{time.Unix(1000, 0)}, 100, 24)
	a := s.pick(client("192.0.2.1"), nil)
	for _, same := range []string{"192.0.2.2", "192.0.2.255"} {
		if s.pick(client(same), nil).to != a.to {
			t.Errorf("%s has another endpoint", same)
		}
	}
	if s.pick(client("192.0.3.1"), nil).to == a.to {
		t.Error("another network has the same endpoint")
	}
	// Without affinity nothing is remembered.
	v := s.virtual
	v.Flags = 0
	s.change(v)
	if s.templates.len() != 0 || a.to.persist != 0 {
		t.Errorf("%d templates", s.templates.len())
	}
	s.leave(a, nil)
}

// A virtual server with affinity remembers a limited number of clients.
func TestAffinityIsBounded(t *testing.T) {
	c := &clock{time.Unix(1000, 0)}
	s := persistentService(t, c, 1<<30, 32)
	s.r.limits.templates = 100
	for i := range 110 {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 1)
		s.leave(s.pick(at, nil), nil)
	}
	if s.templates.len() != 100 || s.endpoints[0].persist+s.endpoints[1].persist != 100 || s.templates.by[netip.MustParseAddr("10.0.0.9")] != nil {
		t.Errorf("%d templates, of endpoints %d and %d", s.templates.len(), s.endpoints[0].persist, s.endpoints[1].persist)
	}
}

// clients is a naive model of templates, with those that are compared with it.
type clients struct {
	have      templates
	now       time.Time
	known     map[netip.Addr]*knownClient
	open      map[netip.Addr][]*template // connections
	endpoints []*endpoint
}

type knownClient struct {
	to    *endpoint
	conns int
	until time.Time
}

const clientTimeout = 10 * time.Second

func drawClient(t *rapid.T) netip.Addr {
	return netip.AddrFrom4([4]byte{192, 0, 2, byte(rapid.IntRange(0, 5).Draw(t, "client"))})
}

// live returns a client that has not expired, or nil.
func (c *clients) live(a netip.Addr) *knownClient {
	if k := c.known[a]; k != nil && (k.conns > 0 || c.now.Before(k.until)) {
		return k
	}
	return nil
}

func (c *clients) wait(t *rapid.T) {
	c.now = c.now.Add(time.Duration(rapid.IntRange(0, 6).Draw(t, "s")) * time.Second)
	c.have.expire(c.now, clientTimeout)
	for a, k := range c.known {
		if c.live(a) == nil {
			delete(c.known, a)
		} else if k.conns > 0 && !c.now.Before(k.until) {
			k.until = c.now.Add(clientTimeout)
		}
	}
}

func (c *clients) use(t *rapid.T) {
	a, to := drawClient(t), rapid.SampledFrom(c.endpoints).Draw(t, "to")
	c.open[a] = append(c.open[a], c.have.use(a, to, c.now, 100))
	k := c.known[a]
	if k == nil {
		k = &knownClient{}
		c.known[a] = k
	}
	k.to, k.until = to, c.now.Add(clientTimeout)
	k.conns++
}

func (c *clients) leave(t *rapid.T) {
	a := drawClient(t)
	if n := len(c.open[a]); n > 0 {
		c.have.leave(c.open[a][n-1], c.now)
		c.open[a] = c.open[a][:n-1]
		c.known[a].conns--
		c.known[a].until = c.now.Add(clientTimeout)
	}
}

func (c *clients) check(t *rapid.T) {
	for a := range c.known {
		got := c.have.find(a, c.now, clientTimeout)
		if k := c.live(a); (k == nil) != (got == nil) || k != nil && got.to != k.to {
			t.Fatalf("%v: %+v, want %+v", a, got, k)
		}
	}
	count := map[*endpoint]int{}
	for _, x := range c.have.by {
		count[x.to]++
	}
	for _, e := range c.endpoints {
		if e.persist != count[e] {
			t.Fatalf("endpoint %v has %d templates, counts %d", e.addr, count[e], e.persist)
		}
	}
	if c.have.len() != len(c.have.by) {
		t.Fatal("the order has another length")
	}
}

func TestTemplatesProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &clients{
			now: time.Unix(1000, 0), endpoints: endpointsOf(1, 1, 1),
			known: map[netip.Addr]*knownClient{}, open: map[netip.Addr][]*template{},
		}
		t.Repeat(map[string]func(*rapid.T){"wait": c.wait, "use": c.use, "leave": c.leave, "": c.check})
	})
}

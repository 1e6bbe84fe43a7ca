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

// Templates against a map of clients.
func TestTemplatesProperties(t *testing.T) {
	type known struct {
		to    *endpoint
		conns int
		until time.Time
	}
	rapid.Check(t, func(t *rapid.T) {
		const timeout = 10 * time.Second
		var have templates
		now := time.Unix(1000, 0)
		model := map[netip.Addr]*known{}
		endpoints := endpointsOf(1, 1, 1)
		draw := func(t *rapid.T) netip.Addr {
			return netip.AddrFrom4([4]byte{192, 0, 2, byte(rapid.IntRange(0, 5).Draw(t, "client"))})
		}
		open := map[netip.Addr][]*template{}
		live := func(a netip.Addr) *known {
			if k := model[a]; k != nil && (k.conns > 0 || now.Before(k.until)) {
				return k
			}
			return nil
		}
		t.Repeat(map[string]func(*rapid.T){
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 6).Draw(t, "s")) * time.Second)
				have.expire(now, timeout)
				for a, k := range model {
					if live(a) == nil {
						delete(model, a)
					} else if k.conns > 0 && !now.Before(k.until) {
						k.until = now.Add(timeout)
					}
				}
			},
			"use": func(t *rapid.T) {
				a, to := draw(t), rapid.SampledFrom(endpoints).Draw(t, "to")
				open[a] = append(open[a], have.use(a, to, now, 100))
				k := model[a]
				if k == nil {
					k = &known{}
					model[a] = k
				}
				k.to, k.until = to, now.Add(timeout)
				k.conns++
			},
			"leave": func(t *rapid.T) {
				a := draw(t)
				if n := len(open[a]); n > 0 {
					have.leave(open[a][n-1], now)
					open[a] = open[a][:n-1]
					model[a].conns--
					model[a].until = now.Add(timeout)
				}
			},
			"": func(t *rapid.T) {
				count := map[*endpoint]int{}
				for a := range model {
					got := have.find(a, now, timeout)
					if k := live(a); (k == nil) != (got == nil) || k != nil && got.to != k.to {
						t.Fatalf("%v: %+v, want %+v", a, got, k)
					}
				}
				for _, x := range have.by {
					count[x.to]++
				}
				for _, e := range endpoints {
					if e.persist != count[e] {
						t.Fatalf("endpoint %v has %d templates, counts %d", e.addr, count[e], e.persist)
					}
				}
				if have.len() != len(have.by) {
					t.Fatal("the order has another length")
				}
			},
		})
	})
}

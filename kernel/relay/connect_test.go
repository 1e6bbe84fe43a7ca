package relay

import (
	"net/netip"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
)

// Endpoints that refuse cost no time, however many.
func TestRefusedEndpoints(t *testing.T) {
	for _, scheduler := range kernel.RelaySchedulers {
		t.Run(scheduler, func(t *testing.T) {
			r := newRelay(t, Options{})
			v, at := persistent(virtual(t, kernel.TCP, kernel.IPv4, scheduler), 100), named(t, kernel.IPv4)
			r.limits.dial = []time.Duration{time.Hour}
			serve(t, r, v, append(closedPorts(t, kernel.IPv4, 3), at)...)
			for range 20 {
				if got := visit(t, v.Key.AddrPort()); got != at {
					t.Errorf("%v answers", got)
				}
			}
			if n := r.Stats().Retries; n > 3 { // then affinity knows the one that answers
				t.Errorf("%d retries", n)
			}
		})
	}
}

// An endpoint that does not answer costs 250 ms, and the client's bytes are not lost.
func TestSilentEndpoint(t *testing.T) {
	families(t, func(t *testing.T, f kernel.Family) {
		r := newRelay(t, Options{})
		v := virtual(t, kernel.TCP, f, "rr")
		live, dead := backend(t, f, echo), silent(t, f)
		serve(t, r, v, live, dead)
		slow := 0
		for range 4 { // a retry takes no other connection's turn
			begin := time.Now()
			c := dial(t, v.Key.AddrPort())
			say(t, c, "early bytes")
			c.Close()
			if took := time.Since(begin); took >= 250*time.Millisecond {
				slow++
			}
		}
		// On a busy machine the live one may be late, too, and cost one more.
		if retries := r.Stats().Retries; slow < 2 || retries < 2 {
			t.Errorf("%d slow connections, %d retries of 4 connections", slow, retries)
		}
		if got := conns(r, target(v, dead, 1)); got != (kernel.Conns{}) {
			t.Errorf("the silent endpoint has %+v", got)
		}
	})
}

// With no endpoint that answers, the client's connection is reset: after four tries, also of a
// single endpoint, or at once.
func TestUnreachable(t *testing.T) {
	r := newRelay(t, Options{})
	r.limits.dial = []time.Duration{20 * time.Millisecond, 20 * time.Millisecond, 20 * time.Millisecond, 20 * time.Millisecond}
	dead := silent(t, kernel.IPv4)
	for _, c := range []struct {
		name    string
		reals   []netip.AddrPort
		retries uint64
	}{
		{"silent", []netip.AddrPort{dead}, 4},
		{"closed", closedPorts(t, kernel.IPv4, 2), 2},
		{"both", []netip.AddrPort{dead, closedPort(t, kernel.IPv4)}, 5},
		{"none", nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
			serve(t, r, v, c.reals...)
			before := r.Stats()
			wantUnreachable(t, v.Key.AddrPort())
			eventually(t, "counted", func() bool { return r.Stats().Unreachable == before.Unreachable+1 })
			// On a busy machine, a refusal may come after the time limit.
			if got := r.Stats().Retries - before.Retries; got < c.retries || got > c.retries+2 {
				t.Errorf("%d tries, want %d", got, c.retries)
			}
		})
	}
	t.Run("many", func(t *testing.T) {
		v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
		serve(t, r, v, closedPorts(t, kernel.IPv4, 3*maxRefused)...)
		before := r.Stats()
		wantUnreachable(t, v.Key.AddrPort())
		eventually(t, "given up", func() bool { return r.Stats().Unreachable == before.Unreachable+1 })
		if n := r.Stats().Retries - before.Retries; n < maxRefused || n >= maxRefused+4 {
			t.Errorf("%d tries", n)
		}
	})
}

// A connection whose endpoint is being dialed ends with its virtual server.
func TestRemovedWhileDialing(t *testing.T) {
	r := newRelay(t, Options{})
	v := virtual(t, kernel.TCP, kernel.IPv4, "rr")
	dead := silent(t, kernel.IPv4)
	r.limits.dial = []time.Duration{time.Hour}
	serve(t, r, v, dead)
	c := dial(t, v.Key.AddrPort())
	eventually(t, "dialing", func() bool { return conns(r, target(v, dead, 1)) == kernel.Conns{Inactive: 1} })
	apply(t, r, remove(v))
	wantReset(t, c)
}

// With affinity, a client's connections have one endpoint, until it drains.
func TestPersistent(t *testing.T) {
	r := newRelay(t, Options{})
	v := persistent(virtual(t, kernel.TCP, kernel.IPv4, "rr"), 100)
	a, b := named(t, kernel.IPv4), named(t, kernel.IPv4)
	serve(t, r, v, a, b)
	visitFrom := func(from string) netip.AddrPort {
		c := dialFrom(t, from, v.Key.AddrPort())
		defer c.Close()
		return who(t, c)
	}
	one, other := visitFrom("127.0.1.1"), visitFrom("127.0.1.2")
	if one == other {
		t.Error("two clients have one endpoint")
	}
	for range 5 {
		if visitFrom("127.0.1.1") != one || visitFrom("127.0.1.2") != other {
			t.Error("a client moved")
		}
	}
	if got := conns(r, target(v, a, 1)).Persist; got != 1 {
		t.Errorf("%d templates", got)
	}
	apply(t, r, change(target(v, one, 0)))
	if visitFrom("127.0.1.1") != other {
		t.Error("a new connection to an endpoint that drains")
	}
	apply(t, r, change(target(v, one, 1)))
	if visitFrom("127.0.1.1") != other {
		t.Error("the client moved back")
	}
}

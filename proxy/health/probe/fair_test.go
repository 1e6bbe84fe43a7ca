package probe

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// kinds of targets that other services have, and what their probes are like at a time.
var crowd = map[string]func(at time.Duration, rnd *rand.Rand, timeout time.Duration) (Outcome, time.Duration){
	"dead": func(time.Duration, *rand.Rand, time.Duration) (Outcome, time.Duration) {
		return Refused, 200 * time.Microsecond
	},
	"slow": func(_ time.Duration, _ *rand.Rand, timeout time.Duration) (Outcome, time.Duration) {
		return OK, timeout * 9 / 10
	},
	"hanging": func(_ time.Duration, _ *rand.Rand, timeout time.Duration) (Outcome, time.Duration) {
		return Timeout, timeout
	},
	"flapping": func(at time.Duration, _ *rand.Rand, timeout time.Duration) (Outcome, time.Duration) {
		if at/(7*time.Second)%2 == 1 {
			return Timeout, timeout
		}
		return OK, time.Millisecond
	},
	"random": func(_ time.Duration, rnd *rand.Rand, timeout time.Duration) (Outcome, time.Duration) {
		if rnd.IntN(3) == 0 {
			return Timeout, timeout
		}
		return OK, time.Duration(rnd.Int64N(int64(timeout)))
	},
}

// TestNoServiceStarvesAnother: whatever the targets of other services do, a service within its share is probed in time: no
// target of it waits for longer than two intervals. There may be five times as many other services as places.
func TestNoServiceStarvesAnother(t *testing.T) {
	sizes := []int{1, 20, 150, 1000}
	if os.Getenv("SVCPROXY_GUEST") == "1" {
		sizes = []int{20} // it asks nothing of a kernel, and is slow on an emulated processor
	}
	for name, do := range crowd {
		for _, services := range sizes {
			for _, pace := range []struct{ interval, timeout time.Duration }{
				{2 * time.Second, 20 * time.Second}, {100 * time.Millisecond, time.Second},
			} {
				c := crowded{limits: Limits{InFlight: 200, PerSecond: 1000}, targets: 1000, services: services, interval: pace.interval, timeout: pace.timeout, do: do}
				t.Run(fmt.Sprintf("%s/%d services/every %v for %v", name, services, pace.interval, pace.timeout), c.test)
				c.fresh = true
				t.Run(fmt.Sprintf("%s/%d services/every %v for %v/at a start", name, c.services, pace.interval, pace.timeout), c.test)
				c.fresh = false
				if services < 150 { // so many services have no share of the eight places for programs
					c.program = true
					t.Run(fmt.Sprintf("programs %s/%d services/every %v for %v", name, services, pace.interval, pace.timeout), c.test)
				}
			}
		}
	}
}

// The same with as many targets as the largest node has, each of a service of its own, which hang all at once.
func TestLargestCrowdStarvesNobody(t *testing.T) {
	for _, name := range []string{"hanging", "random"} {
		c := crowded{limits: DefaultLimits(), targets: 25000, interval: 2 * time.Second, timeout: 20 * time.Second, do: crowd[name]}
		if os.Getenv("SVCPROXY_GUEST") == "1" {
			c.targets = 5000
		}
		c.services = c.targets
		t.Run(name, c.test)
	}
}

type crowded struct {
	limits            Limits
	targets, services int
	program           bool
	fresh             bool // the others are there from the start
	interval, timeout time.Duration
	do                func(time.Duration, *rand.Rand, time.Duration) (Outcome, time.Duration)
}

func (c crowded) test(t *testing.T) {
	const every = 2 * time.Second
	run(t, c.limits, func(w *world) {
		kind := sources.CheckHTTP
		if c.program {
			kind = sources.CheckExec
		}
		rnd := rand.New(rand.NewPCG(1, 2))
		web := map[netip.AddrPort]bool{}
		last := map[netip.AddrPort]time.Duration{}
		var worst time.Duration
		w.answer = func(at time.Duration, x netip.AddrPort) (Result, time.Duration) {
			if !web[x] {
				outcome, takes := c.do(at, rnd, c.timeout)
				return Result{Outcome: outcome}, takes
			}
			worst = max(worst, at-last[x])
			last[x] = at
			return Result{Outcome: OK}, 5 * time.Millisecond
		}
		w.next = func(x *Target, r Result) time.Duration {
			if web[x.Address] {
				return every
			}
			return c.interval
		}
		add := func(n int, service string, timeout, interval time.Duration) {
			x := target(n)
			x.Probe, x.Service = &sources.Probe{Type: kind, Timeout: timeout}, service
			w.Add(x, interval)
		}
		for n := range 3 {
			web[target(1<<20+n).Address] = true
		}
		for n := range 3 {
			add(1<<20+n, "web", 2*time.Second, every)
		}
		if !c.fresh {
			w.sleep(8 * time.Second) // they are known as prompt
		}
		for n := range c.targets {
			add(n, fmt.Sprint(n%c.services), c.timeout, c.interval)
		}
		w.sleep(40 * time.Second)
		w.consistent()
		end := time.Since(w.start)
		for x := range web {
			worst = max(worst, end-last[x])
		}
		if worst > 3*every { // an interval between two probes, and a wait of two
			t.Errorf("a target of web was not probed for %v", worst)
		}
		s := w.Stats()
		if own := 3 * int(end/every); int(s.Started) < own+5 {
			t.Errorf("the others were probed %d times", int(s.Started)-own)
		}
		if !w.Alive(time.Now()) {
			t.Error("not alive")
		}
	})
}

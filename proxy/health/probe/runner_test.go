package probe

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// world is a fake network for a runner, in a synctest bubble.
type world struct {
	t      *testing.T
	start  time.Time
	answer func(at time.Duration, target netip.AddrPort) (Result, time.Duration) // the result, and how long it takes
	next   func(*Target, Result) time.Duration

	*Runner
	asking sync.Mutex // held by answer

	mu     sync.Mutex
	starts map[netip.AddrPort][]time.Duration
	now    map[netip.AddrPort]int
	most   int // probes at once
	seen   []Result
}

// run runs test in a bubble with a runner. By default probes take a millisecond and are ok, each 2 s.
func run(t *testing.T, limits Limits, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, start: time.Now(), starts: map[netip.AddrPort][]time.Duration{}, now: map[netip.AddrPort]int{}}
		w.answer = func(time.Duration, netip.AddrPort) (Result, time.Duration) {
			return Result{Outcome: OK}, time.Millisecond
		}
		w.next = func(*Target, Result) time.Duration { return 2 * time.Second }
		w.Runner = newRunner(w.do, w.report, limits)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			w.Run(ctx)
			close(ended)
		}()
		test(w)
		cancel()
		<-ended
		synctest.Wait()
	})
}

// sleep sleeps until all that happens in the meantime has happened: the test may then read it.
func (w *world) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// probes reports whether t is being probed.
func (w *world) probes(t *Target) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now[t.Address] > 0
}

func (w *world) do(ctx context.Context, _ *sources.Probe, target netip.AddrPort, _ Meta) Result {
	at := time.Since(w.start)
	w.mu.Lock()
	w.starts[target] = append(w.starts[target], at)
	w.now[target]++
	if w.now[target] > 1 {
		w.t.Errorf("two probes of %v at once", target)
	}
	w.most = max(w.most, len(w.now))
	w.mu.Unlock()
	w.asking.Lock()
	result, takes := w.answer(at, target)
	w.asking.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
	}
	w.mu.Lock()
	delete(w.now, target)
	w.mu.Unlock()
	return result
}

func (w *world) report(t *Target, r Result) Next {
	w.mu.Lock()
	w.seen = append(w.seen, r)
	w.mu.Unlock()
	return Next{After: w.next(t, r)}
}

// consistent checks the lists of the runner.
func (w *world) consistent() {
	w.t.Helper()
	w.Runner.mu.Lock()
	defer w.Runner.mu.Unlock()
	if first := w.queue.first(); (first == nil) != (w.queue.size == 0) || len(w.queue.order) != len(w.queue.slots) {
		w.t.Fatalf("%d targets, first %v, %d slots of %d", w.queue.size, first, len(w.queue.order), len(w.queue.slots))
	}
	waits := 0
	for begin, s := range w.queue.slots {
		waits += len(s.due)
		if w.queue.order[s.place] != s || s.begin != begin || len(s.due) == 0 {
			w.t.Fatalf("slot %v = %+v", begin, s)
		}
		for i, t := range s.due {
			if int(t.place) != i || t.due != t.Target.due || t.state != waiting || t.due.Truncate(slotWidth) != begin || t.due < w.queue.first().due {
				w.t.Fatalf("slot %v[%d] = %+v", begin, i, t)
			}
		}
	}
	if waits != w.queue.size {
		w.t.Fatalf("%d targets wait, counted %d", waits, w.queue.size)
	}
	busy := map[*lane]int{}
	for i, t := range w.running {
		if int(t.place) != i || t.state != running {
			w.t.Fatalf("running[%d] = %+v", i, t)
		}
		busy[t.group.lane]++
	}
	for _, l := range []*lane{&w.programs, &w.others} {
		if l.running != busy[l] || l.running > l.places || l.running != l.classes[prompt].running+l.classes[fresh].running+l.classes[slow].running {
			w.t.Fatalf("%d running of %d places, counted %d: %+v", busy[l], l.places, l.running, l.classes)
		}
	}
	targets := w.queue.size + len(w.running)
	for k, g := range w.groups {
		targets -= g.targets
		for c := range g.shares {
			s := &g.shares[c]
			targets += len(s.due)
			if len(s.due) > 0 && k.lane.classes[c].ready[s.place] != s {
				w.t.Fatalf("the share of %s is not at %d", k.service, s.place)
			}
			for i, t := range s.due {
				if int(t.place) != i || t.state != ready || t.share() != s || t.due < s.due[0].due {
					w.t.Fatalf("due[%d] of %s = %+v", i, k.service, t)
				}
			}
		}
	}
	if targets != 0 {
		w.t.Fatalf("the groups differ from the lists by %d targets", targets)
	}
}

var tcpProbe = &sources.Probe{Type: sources.CheckTCP, Timeout: 2 * time.Second}

func target(n int) *Target {
	return &Target{Probe: tcpProbe, Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), 80)}
}

func TestFirstProbesAreSpread(t *testing.T) {
	const targets, slots = 10000, 10 // of five turns
	var before map[netip.AddrPort][]time.Duration
	for range 2 {
		run(t, Limits{}, func(w *world) {
			for n := range targets {
				w.Add(target(n), 2*time.Second)
			}
			w.sleep(2*time.Second + turnGap)
			var per [slots + 1]int
			for _, at := range w.starts {
				per[at[0]*slots/(2*time.Second)]++
			}
			if most := slices.Max(per[:]); len(w.starts) != targets || most > targets/slots*5/4 {
				t.Errorf("%d targets probed, per 200 ms: %v", len(w.starts), per)
			}
			// After a restart every target has the phase that it had.
			for address, at := range before {
				if d := at[0] - w.starts[address][0]; d.Abs() > turnGap {
					t.Fatalf("%v: first at %v, now at %v", address, at[0], w.starts[address][0])
				}
			}
			before = w.starts
			if s := w.Stats(); s.LateQuantile(0.99) > 50*time.Millisecond || s.Started < targets {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestIntervalsCountFromDueTimes(t *testing.T) {
	run(t, Limits{}, func(w *world) {
		w.answer = func(time.Duration, netip.AddrPort) (Result, time.Duration) {
			return Result{Outcome: OK}, 700 * time.Millisecond
		}
		a := target(1)
		w.Add(a, 2*time.Second)
		w.sleep(time.Minute)
		at := w.starts[a.Address]
		for i, got := range at {
			if d := got - at[0] - time.Duration(i)*2*time.Second; d.Abs() > turnGap {
				t.Fatalf("probe %d at %v", i, got)
			}
		}
		if len(at) < 29 {
			t.Errorf("%d probes", len(at))
		}
	})
}

func TestSlowProbesSkipTurns(t *testing.T) {
	run(t, Limits{}, func(w *world) {
		w.answer = func(time.Duration, netip.AddrPort) (Result, time.Duration) {
			return Result{Outcome: OK}, 5 * time.Second
		}
		a := target(1)
		w.Add(a, 2*time.Second)
		w.sleep(time.Minute)
		at := w.starts[a.Address]
		for i := 1; i < len(at); i++ {
			if d := at[i] - at[i-1]; (d - 6*time.Second).Abs() > turnGap {
				t.Fatalf("%v between two probes", d)
			}
		}
	})
}

// TestDetection holds the times in which three failures in a row are seen: at worst the endpoint fails just after
// a probe of it has started.
func TestDetection(t *testing.T) {
	for _, test := range []struct {
		name                                  string
		interval, timeout, fast, takes, limit time.Duration
	}{
		{"refused", 2 * time.Second, 2 * time.Second, 500 * time.Millisecond, time.Millisecond, 3100 * time.Millisecond},
		{"dropped", 2 * time.Second, 2 * time.Second, 500 * time.Millisecond, 2 * time.Second, 9 * time.Second},
		{"dropped, fast", time.Second, 1100 * time.Millisecond, 200 * time.Millisecond, 1100 * time.Millisecond, 4700 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			run(t, Limits{}, func(w *world) {
				const fails = 10 * time.Second
				var detected time.Duration
				bad := 0
				a := target(1)
				a.Jitter = 0.1
				w.answer = func(at time.Duration, _ netip.AddrPort) (Result, time.Duration) {
					if at >= fails {
						return Result{Outcome: Timeout}, test.takes
					}
					return Result{Outcome: OK}, time.Millisecond
				}
				w.next = func(_ *Target, r Result) time.Duration {
					if r.Outcome == OK {
						return test.interval
					}
					if bad++; bad == 3 {
						detected = time.Since(w.start)
					}
					return test.fast
				}
				w.Add(a, test.interval)
				w.sleep(30 * time.Second)
				var last time.Duration // before the failure
				for _, at := range w.starts[a.Address] {
					if at < fails {
						last = at
					}
				}
				if detected == 0 || detected-last > test.limit {
					t.Errorf("failed after %v, detected %v later", last, detected-last)
				}
			})
		})
	}
}

func TestJitter(t *testing.T) {
	run(t, Limits{}, func(w *world) {
		a := target(1)
		a.Jitter = 0.1
		w.Add(a, 2*time.Second)
		w.sleep(1000 * time.Second)
		at := w.starts[a.Address]
		var least, most, sum time.Duration = time.Hour, 0, 0
		for i := 1; i < len(at); i++ {
			d := at[i] - at[i-1]
			least, most, sum = min(least, d), max(most, d), sum+d
		}
		mean := sum / time.Duration(len(at)-1)
		if least < 1780*time.Millisecond || least > 1850*time.Millisecond || most > 2*time.Second+turnGap || most < 1950*time.Millisecond ||
			(mean-1900*time.Millisecond).Abs() > 20*time.Millisecond {
			t.Errorf("from %v to %v, mean %v", least, most, mean)
		}
	})
}

func TestLimits(t *testing.T) {
	t.Run("in flight", func(t *testing.T) {
		run(t, Limits{InFlight: 3}, func(w *world) {
			w.answer = func(time.Duration, netip.AddrPort) (Result, time.Duration) {
				return Result{Outcome: OK}, 100 * time.Millisecond
			}
			w.next = func(*Target, Result) time.Duration { return 100 * time.Millisecond }
			for n := range 10 {
				a := target(n)
				a.Service = strconv.Itoa(n)
				w.Add(a, 100*time.Millisecond)
			}
			w.sleep(10 * time.Second)
			w.consistent()
			if s := w.Stats(); w.most != 3 || s.Started < 220 || s.LateMax < 50*time.Millisecond {
				t.Errorf("%d at once, %+v", w.most, s)
			}
			for address, at := range w.starts {
				if len(at) < 3 {
					t.Errorf("%v was probed %d times", address, len(at))
				}
			}
		})
	})
	t.Run("per second", func(t *testing.T) {
		run(t, Limits{PerSecond: 100}, func(w *world) {
			w.next = func(*Target, Result) time.Duration { return time.Second }
			for n := range 1000 {
				w.Add(target(n), time.Second)
			}
			w.sleep(10 * time.Second)
			if s := w.Stats(); s.Started < 950 || s.Started > 1010 {
				t.Errorf("%+v", s)
			}
			if !w.Alive(time.Now()) {
				t.Error("a runner at its limits is alive")
			}
		})
	})
	t.Run("exec", func(t *testing.T) {
		run(t, Limits{Exec: 2}, func(w *world) {
			program := &sources.Probe{Type: sources.CheckExec}
			w.answer = func(time.Duration, netip.AddrPort) (Result, time.Duration) {
				return Result{Outcome: OK}, 300 * time.Millisecond
			}
			w.next = func(*Target, Result) time.Duration { return time.Second }
			for n := range 8 {
				a := target(n)
				a.Probe, a.Service = program, strconv.Itoa(n)
				w.Add(a, time.Second)
			}
			b := target(100) // a tcp probe does not wait for exec probes
			w.Add(b, time.Second)
			for range 100 {
				w.sleep(100 * time.Millisecond)
				w.consistent()
			}
			if n := len(w.starts[b.Address]); n < 5 {
				t.Errorf("%d tcp probes", n)
			}
			for n := range 8 {
				if got := len(w.starts[target(n).Address]); got < 3 || got > 7 {
					t.Errorf("target %d was probed %d times", n, got)
				}
			}
		})
	})
}

func TestRemoveAndChange(t *testing.T) {
	run(t, Limits{}, func(w *world) {
		a, b, c := target(1), target(2), target(3)
		w.next = func(x *Target, _ Result) time.Duration {
			if x == b {
				w.Remove(b) // from its own report
			}
			return time.Second
		}
		w.answer = func(at time.Duration, x netip.AddrPort) (Result, time.Duration) {
			return Result{Outcome: OK}, 300 * time.Millisecond
		}
		for _, x := range []*Target{a, b, c} {
			w.Add(x, time.Second)
		}
		w.sleep(10 * time.Second)
		if n := len(w.starts[b.Address]); n != 1 {
			t.Errorf("b was probed %d times", n)
		}
		for !w.probes(a) { // until a's probe is running
			w.sleep(turnGap)
		}
		w.Remove(a)
		w.Remove(a)
		probes, results := len(w.starts[a.Address]), len(w.seen)
		w.Remove(c)
		w.Remove(c)
		w.sleep(5 * time.Second)
		if len(w.starts[a.Address]) != probes || len(w.seen) > results+1 || w.Stats().Targets != 0 {
			t.Errorf("after the removal: %d results more, %+v", len(w.seen)-results, w.Stats())
		}
		d := target(4)
		w.Add(d, time.Hour)
		w.sleep(turnGap)
		w.Change(d, 100*time.Millisecond)
		w.sleep(200 * time.Millisecond)
		if len(w.starts[d.Address]) == 0 {
			t.Error("a shorter interval has no effect")
		}
	})
}

// TestProgramThatCannotBeKilled: its target fails in each interval and has no second probe, and it keeps its place.
func TestProgramThatCannotBeKilled(t *testing.T) {
	run(t, Limits{Exec: 1}, func(w *world) {
		program := &sources.Probe{Type: sources.CheckExec, Timeout: time.Second}
		a, b := target(1), target(2)
		a.Probe, b.Probe = program, program
		ended := make(chan struct{})
		w.answer = func(_ time.Duration, x netip.AddrPort) (Result, time.Duration) {
			if x == a.Address {
				return Result{Outcome: Timeout, unended: ended}, time.Second
			}
			return Result{Outcome: OK}, time.Millisecond
		}
		w.Add(a, 2*time.Second)
		w.sleep(2*time.Second + turnGap)
		w.Add(b, 2*time.Second)
		w.sleep(10 * time.Second)
		w.consistent()
		if n := len(w.seen); n < 5 || len(w.starts[a.Address]) != 1 || len(w.starts[b.Address]) != 0 {
			t.Errorf("%d results, started %v", n, w.starts)
		}
		for _, r := range w.seen {
			if r.Outcome != Timeout {
				t.Errorf("%+v", r)
			}
		}
		w.Remove(a)
		results := len(w.seen)
		w.sleep(10 * time.Second)
		if s := w.Stats(); len(w.seen) != results || s.InFlight != 1 || len(w.starts[b.Address]) != 0 {
			t.Errorf("after its removal: %d results more, %+v", len(w.seen)-results, s)
		}
		close(ended)
		w.sleep(time.Second)
		w.consistent()
		if s := w.Stats(); s.InFlight != 0 || len(w.starts[b.Address]) == 0 || s.Targets != 1 {
			t.Errorf("after its end: %+v", s)
		}
	})
}

func TestRandomUse(t *testing.T) {
	run(t, Limits{InFlight: 20, PerSecond: 500, Exec: 3}, func(w *world) {
		rnd := rand.New(rand.NewPCG(1, 2))
		program := &sources.Probe{Type: sources.CheckExec}
		w.answer = func(time.Duration, netip.AddrPort) (Result, time.Duration) {
			return Result{Outcome: Outcome(rand.IntN(4))}, time.Duration(rand.IntN(400)) * time.Millisecond
		}
		w.next = func(*Target, Result) time.Duration { return time.Duration(rand.IntN(1000)) * time.Millisecond }
		var live []*Target
		for n := range 3000 {
			switch {
			case len(live) == 0 || rnd.IntN(3) == 0:
				a := target(n)
				a.Service = strconv.Itoa(rnd.IntN(5))
				if rnd.IntN(4) == 0 {
					a.Probe = program
				}
				live = append(live, a)
				w.Add(a, time.Duration(rnd.IntN(1000))*time.Millisecond)
			case rnd.IntN(2) == 0:
				i := rnd.IntN(len(live))
				w.Remove(live[i])
				live = slices.Delete(live, i, i+1)
			default:
				w.Change(live[rnd.IntN(len(live))], time.Duration(rnd.IntN(1000))*time.Millisecond)
			}
			w.sleep(time.Duration(rnd.IntN(20)) * time.Millisecond)
			w.consistent()
		}
		w.sleep(time.Second)
		if s := w.Stats(); s.Targets != len(live) {
			t.Errorf("%d targets, %+v", len(live), s)
		}
		for _, a := range live {
			w.Remove(a)
		}
		w.sleep(time.Second)
		w.consistent()
		if s := w.Stats(); s.Targets != 0 || s.InFlight != 0 {
			t.Errorf("%+v", s)
		}
	})
}

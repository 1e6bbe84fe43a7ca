package probe

import (
	"net/netip"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

func TestAlive(t *testing.T) {
	t.Run("a loop that does not run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRunner(nil, nil, Limits{})
			r.Add(target(1), time.Second)
			if !r.Alive(time.Now().Add(3 * time.Second)) {
				t.Error("not alive after three intervals")
			}
			if r.Alive(time.Now().Add(5 * time.Second)) {
				t.Error("alive after five")
			}
		})
	})
	t.Run("a probe that does not return", func(t *testing.T) {
		run(t, Limits{}, func(w *world) {
			w.answer = func(time.Duration, netip.AddrPort) (Result, time.Duration) { return Result{}, time.Hour }
			w.Add(target(1), time.Second)
			w.sleep(5 * time.Second)
			if !w.Alive(time.Now()) {
				t.Error("not alive while the probe may run")
			}
			w.sleep(4 * time.Second)
			if w.Alive(time.Now()) {
				t.Error("alive with a probe that hangs")
			}
		})
	})
	t.Run("no target", func(t *testing.T) {
		run(t, Limits{}, func(w *world) {
			w.sleep(time.Hour)
			if !w.Alive(time.Now()) {
				t.Error("an idle runner is alive")
			}
		})
	})
}

// Exec checks that have no place are counted as soon as they are late. They do not make the runner late, neither while
// they wait nor when they get a place.
func TestExecsWithoutPlace(t *testing.T) {
	run(t, Limits{Exec: 8}, func(w *world) {
		program := &sources.Probe{Type: sources.CheckExec}
		hangs := 3 * time.Minute
		w.answer = func(at time.Duration, x netip.AddrPort) (Result, time.Duration) {
			if x == target(0).Address || at < 2*time.Second || at > hangs {
				return Result{Outcome: OK}, promptly + time.Millisecond // slow after its first probe
			}
			return Result{Outcome: Timeout}, hangs - at
		}
		add := func(n int, from time.Duration) {
			x := target(n)
			x.Probe, x.Service = program, strconv.Itoa(n)
			w.Add(x, from)
		}
		for n := range 6 { // the other two are for new and prompt targets
			add(n+1, time.Second)
		}
		w.sleep(10 * time.Second)
		added := time.Now()
		add(0, 10*time.Second)
		quiet := func(when string) Stats {
			if !w.Alive(time.Now()) {
				t.Errorf("%s: not alive", when)
			}
			return w.Stats()
		}
		w.sleep(30 * time.Second)
		if s := quiet("after three intervals"); s.Ready != 1 || s.Overdue != 0 || !s.OverdueSince.IsZero() {
			t.Errorf("too early: %+v", s)
		}
		w.sleep(21 * time.Second)
		if s := quiet("later"); s.Overdue != 1 || s.OverdueSince.Before(added) || s.OverdueSince.After(added.Add(20*time.Second)) {
			t.Errorf("added %v: %+v", added, s)
		}
		w.sleep(time.Until(w.start.Add(hangs)))
		w.sleep(time.Second)
		if s := quiet("in the end"); len(w.starts[target(0).Address]) == 0 || s.Overdue != 0 {
			t.Errorf("in the end: %+v", s)
		}
	})
}

func TestStall(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	var s stall
	for _, step := range []struct{ wakes, woke, total int }{
		{10, 10, 0}, {110, 50, 0}, {110, 400, 290}, {500, 500, 290}, {600, 650, 290}, {700, 800, 390},
	} {
		s.wakes = ms(step.wakes)
		if got := s.until(ms(step.woke)); got != ms(step.total) {
			t.Errorf("%+v: %v before the loop wakes", step, got)
		}
		if s.woke(ms(step.woke)); s.total != ms(step.total) || s.until(ms(step.woke)) != ms(step.total) {
			t.Errorf("%+v: %v", step, s.total)
		}
	}
	if !excuses(Timeout, ms(600), 2*time.Second) || excuses(Timeout, ms(400), 2*time.Second) || excuses(Refused, time.Hour, time.Second) {
		t.Error("what is excused is wrong")
	}
}

func TestVoidResultsAreCounted(t *testing.T) {
	run(t, Limits{}, func(w *world) {
		w.next = func(*Target, Result) time.Duration { return time.Second }
		w.answer = func(at time.Duration, _ netip.AddrPort) (Result, time.Duration) {
			if at < 10*time.Second {
				return Result{Outcome: Refused}, time.Millisecond
			}
			return Result{Outcome: Void, Detail: "too many open files"}, time.Millisecond
		}
		for n := range 20 {
			w.Add(target(n), time.Second)
		}
		w.sleep(20 * time.Second)
		if s := w.Stats(); s.Void < 180 || s.Void > 220 {
			t.Errorf("%d void results", s.Void)
		}
	})
}

package probe

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
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
			if !w.Alive(time.Now()) || w.Behind(time.Now()) != 0 {
				t.Error("an idle runner is neither hanging nor behind")
			}
		})
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

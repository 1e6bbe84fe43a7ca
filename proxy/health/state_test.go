package health

import (
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"
)

var epoch = time.Unix(1_700_000_000, 0).UTC()

// naive is the verdict by its definition, from all results that were not void: the first decides, and then n in a row
// against the verdict, all of them later than the one that decided it.
func naive(results []bool, fall, rise int) (up, known bool) {
	if len(results) == 0 {
		return false, false
	}
	up, decided := results[0], 0
	for i := range results {
		needed := fall
		if !up {
			needed = rise
		}
		from := i - needed + 1
		if from <= decided {
			continue
		}
		against := true
		for _, r := range results[from : i+1] {
			against = against && r != up
		}
		if against {
			up, decided = !up, i
		}
	}
	return up, true
}

// TestStepAgainstModel holds 10,000 random histories to the definition. Their results are an hour apart, so that
// nothing flaps.
func TestStepAgainstModel(t *testing.T) {
	histories := 0
	check := func(t *rapid.T) {
		p := Pace{Fall: rapid.IntRange(1, 5).Draw(t, "fall"), Rise: rapid.IntRange(1, 5).Draw(t, "rise")}
		var s State
		var told []bool
		voids := uint64(0)
		n := rapid.IntRange(0, 40).Draw(t, "results")
		for i := range n {
			r := Result{At: epoch.Add(time.Duration(i) * time.Hour), Reason: "r"}
			r.Void = rapid.IntRange(0, 4).Draw(t, "void") == 0
			r.Good = rapid.Bool().Draw(t, "good")
			was := s
			s = Step(s, r, p)
			if r.Void {
				voids++
				same := s
				same.Voids, same.Voided, same.VoidRun, same.VoidSince = was.Voids, was.Voided, was.VoidRun, was.VoidSince
				if same != was {
					t.Fatalf("a void result changed %+v to %+v", was, s)
				}
				continue
			}
			told = append(told, r.Good)
			if s.Last != r {
				t.Fatalf("the last result is %+v, want %+v", s.Last, r)
			}
			if moved := was.Phase.IsUp() != s.Phase.IsUp() || was.Phase == Unknown; moved != (s.Changed == r.At) {
				t.Fatalf("%s to %s, changed at %s, result at %s", was.Phase, s.Phase, s.Changed, r.At)
			}
			if s.Phase.IsDown() && s.Reason == "" {
				t.Fatal("down without a reason")
			}
		}
		up, known := naive(told, p.Fall, p.Rise)
		if known != (s.Phase != Unknown) || up != s.Phase.IsUp() || s.Voids != voids {
			t.Fatalf("%v with fall %d, rise %d: %s after %d void results, want up %v after %d", told, p.Fall, p.Rise, s.Phase, s.Voids, up, voids)
		}
		histories++
	}
	for histories < 10_000 { // rapid.Check runs 100 unless told otherwise
		rapid.Check(t, check)
		if t.Failed() {
			return
		}
	}
}

// TestFirstResultDecides: whatever fall and rise are.
func TestFirstResultDecides(t *testing.T) {
	for _, good := range []bool{true, false} {
		if s := Step(State{}, Result{Good: good, At: epoch}, Pace{Fall: 9, Rise: 9}); s.Phase.IsUp() != good || s.Phase == Unknown {
			t.Errorf("good %v: %s", good, s.Phase)
		}
	}
}

// TestDetection: how long it takes to see a refusal and a black hole, with the defaults and with a quick pace. The
// endpoint fails right after a probe; a probe that times out takes its timeout.
func TestDetection(t *testing.T) {
	quick := Pace{Interval: time.Second, FastInterval: 200 * time.Millisecond, Fall: 3, Rise: 2}
	check := standard()
	for _, c := range []struct {
		name string
		pace Pace
		took time.Duration // of each probe
		want time.Duration
	}{
		{"refused", PaceOf(&check), 0, 3 * time.Second},
		{"dropped", PaceOf(&check), 2 * time.Second, 9 * time.Second},
		{"dropped, quick", quick, 1100 * time.Millisecond, 4700 * time.Millisecond},
	} {
		s, now := Step(State{}, Result{Good: true, At: epoch}, c.pace), epoch
		for s.Phase.IsUp() {
			now = now.Add(c.pace.Next(&s) + c.took)
			s = Step(s, Result{At: now, Reason: c.name}, c.pace)
		}
		if first := epoch.Add(c.pace.Interval + c.took); !s.Noticed.Equal(first) {
			t.Errorf("%s: noticed at %s, want %s", c.name, s.Noticed, first)
		}
		if got := now.Sub(epoch); got != c.want {
			t.Errorf("%s: down after %s, want %s", c.name, got, c.want)
		}
	}
}

// TestNext: the fast interval counts until a state is decided.
func TestNext(t *testing.T) {
	p := Pace{Interval: 1, FastInterval: 2, DownInterval: 3}
	plain := Pace{Interval: 1}
	for phase, want := range map[Phase]time.Duration{Unknown: 2, Up: 1, Failing: 2, Down: 3, Recovering: 2} {
		if got := p.Next(&State{Phase: phase}); got != want {
			t.Errorf("%s: %d, want %d", phase, got, want)
		}
		if got := plain.Next(&State{Phase: phase}); got != 1 {
			t.Errorf("%s: %d without others", phase, got)
		}
	}
}

// TestRiseIsDamped: doubled by each change, to ten; a larger number stays.
func TestRiseIsDamped(t *testing.T) {
	for _, c := range []struct{ configured, doublings, want int }{
		{2, 0, 2}, {2, 1, 4}, {2, 2, 8}, {2, 3, 10}, {2, 9, 10}, {1, 4, 10}, {12, 3, 12}, {0, 0, 1},
	} {
		if got := (flaps{doublings: uint8(c.doublings)}).rise(c.configured); got != c.want {
			t.Errorf("rise %d, %d times doubled: %d, want %d", c.configured, c.doublings, got, c.want)
		}
	}
}

// TestFlapsInWindow: more than five changes in five minutes, and not six in more.
func TestFlapsInWindow(t *testing.T) {
	for _, c := range []struct {
		every time.Duration
		want  bool
	}{{59 * time.Second, true}, {time.Minute, false}} {
		var f flaps
		for i := range 6 {
			if f.doublings > 0 {
				t.Fatalf("flaps after %d changes", i)
			}
			f = f.changed(epoch.Add(time.Duration(i) * c.every))
		}
		if got := f.doublings > 0; got != c.want {
			t.Errorf("a change each %s: flaps is %v", c.every, got)
		}
	}
}

// stepped returns a time as time.Now gives it after the wall clock was set back. The monotonic clock goes on.
func stepped(t *testing.T, at time.Time, back time.Duration) time.Time {
	t.Helper()
	is := at
	*(*uint64)(unsafe.Pointer(&is)) -= uint64(back/time.Second) << 30 // the seconds in time.Time.wall
	if is.Sub(at) != 0 || at.UnixNano()-is.UnixNano() != int64(back) {
		t.Fatalf("%s is not %s before %s on the wall clock alone", is, back, at)
	}
	return is
}

// TestFlapsIgnoreWallClock: a target neither starts to flap nor goes on flapping because the wall clock is set back.
func TestFlapsIgnoreWallClock(t *testing.T) {
	start := time.Now()
	var rare flaps
	for i := range 5 {
		rare = rare.changed(start.Add(time.Duration(i) * 6 * time.Hour))
	}
	if rare = rare.changed(stepped(t, start.Add(30*time.Hour), 35*time.Hour)); rare.doublings > 0 {
		t.Error("six changes in 30 hours: flapping")
	}
	var often flaps
	for range 6 {
		often = often.changed(start)
	}
	for after, want := range map[time.Duration]bool{flapWindow - time.Second: true, flapWindow: false} {
		if got := often.calmed(stepped(t, start.Add(after), 2*time.Hour)).doublings > 0; got != want {
			t.Errorf("%s after the last change: flapping is %v", after, got)
		}
	}
}

func TestPhaseText(t *testing.T) {
	for p := Unknown; p <= Recovering; p++ {
		text, _ := p.MarshalText()
		var back Phase
		if err := back.UnmarshalText(text); err != nil || back != p {
			t.Errorf("%s: %s, %v", text, back, err)
		}
	}
	if err := new(Phase).UnmarshalText([]byte("sick")); err == nil {
		t.Error("an unknown phase is read")
	}
}

// A refused connection shows no certificate: the last one stays known.
func TestCertificateStaysKnown(t *testing.T) {
	p, expires := Pace{Fall: 1, Rise: 1}, epoch.Add(time.Hour)
	s := Step(State{}, Result{Good: true, At: epoch, Expires: expires}, p)
	s = Step(s, Result{Reason: "refused", At: epoch.Add(time.Second)}, p)
	if s.Last.Reason != "refused" || !s.Last.Expires.Equal(expires) {
		t.Errorf("%+v", s.Last)
	}
	renewed := expires.Add(time.Hour)
	if s = Step(s, Result{Good: true, At: epoch.Add(2 * time.Second), Expires: renewed}, p); !s.Last.Expires.Equal(renewed) {
		t.Errorf("renewed: %+v", s.Last)
	}
}

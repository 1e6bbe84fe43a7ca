package health

import "time"

// State is what is known of one target. Its zero value is a target without a result. It is comparable.
type State struct {
	Phase Phase
	Run   int // results in a row that speak against the present verdict

	// Changed is when the target last went up or down, and Reason is that of the result which decided it. Noticed is
	// when the first of the results came that led to it. The times are zero for a verdict taken over from the kernel.
	Changed, Noticed time.Time
	Reason           string

	Last   Result // the last result that was not void, with the last certificate's Expires
	Voids  uint64 // void results so far
	Voided string // the reason of the last one
	// VoidRun counts the last results in a row that told nothing, the first of them at VoidSince.
	VoidRun   int
	VoidSince time.Time

	// Percent and Ask are those of the last good result, or what an agent has said last.
	Percent uint16
	Ask     Ask
	Said    Said // by an agent

	flaps  flaps
	since  time.Time // of the first result of the run
	proven bool      // it had a good result: its phase is not only that of the kernel at the start
}

// Step returns the state after a result. A void result is counted and changes nothing else. The first result
// decides at once; later it takes Fall bad results in a row to go down and Rise good ones to come up. What an
// agent says about health decides at once: it is a statement, which need not be confirmed.
func Step(s State, r Result, p Pace) State {
	switch {
	case !r.Void && !r.Unsent:
		s.VoidRun, s.VoidSince = 0, time.Time{}
	case s.VoidRun == 0:
		s.VoidRun, s.VoidSince, s.Voided = 1, r.At, r.Reason
	default:
		s.VoidRun++
		s.Voided = r.Reason
	}
	if r.Void {
		s.Voids++
		return s
	}
	if r.Agent {
		s.Said = s.Said.after(r)
		r = s.Said.judge(r)
		if r.Words.Up || r.Words.Down {
			p.Fall, p.Rise = 1, 1
		}
	}
	if r.Expires.IsZero() { // a refused connection does not show the certificate
		r.Expires = s.Last.Expires
	}
	s.Last = r
	if r.Good || r.Agent {
		s.Percent, s.Ask = r.Percent, r.Ask
	}
	s.proven = s.proven || r.Good
	s.flaps = s.flaps.calmed(r.At)
	switch {
	case s.Phase == Unknown:
		s.since = r.At
		return s.decide(r)
	case s.Phase.IsUp() == r.Good:
		s.Run = 0
		s.Phase = verdict(r.Good)
		return s
	}
	if s.Run++; s.Run == 1 {
		s.since = r.At
	}
	if s.Run >= s.needed(p) {
		s.flaps = s.flaps.changed(r.At)
		return s.decide(r)
	}
	if r.Good {
		s.Phase = Recovering
	} else {
		s.Phase = Failing
	}
	return s
}

// decide makes a result the verdict.
func (s State) decide(r Result) State {
	s.Phase, s.Run = verdict(r.Good), 0
	s.Changed, s.Noticed, s.Reason = r.At, s.since, r.Reason
	return s
}

func verdict(good bool) Phase {
	if good {
		return Up
	}
	return Down
}

// needed returns how many results in a row change the present verdict.
func (s *State) needed(p Pace) int {
	if s.Phase.IsUp() {
		return p.Fall
	}
	return s.flaps.rise(p.Rise)
}

// Dark reports whether the last probes told nothing, several of them and for some time.
func (s *State) Dark(now time.Time) bool {
	return s.VoidRun >= blindLeast && now.Sub(s.VoidSince) >= blindAfter
}

// Flapping reports whether the target changed so often that it has to be good for longer before it is up again.
func (s *State) Flapping() bool { return s.flaps.doublings > 0 }

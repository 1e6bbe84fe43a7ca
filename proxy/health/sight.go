package health

import "time"

// All results must be void for blindAfter, and there must be blindLeast of them, for the checker to be blind.
const (
	blindAfter = 3 * time.Second
	blindLeast = 3
)

// sight knows whether the checker can see at all.
type sight struct {
	voids int       // in a row, over all targets
	since time.Time // of the first of them
	void  bool      // blind, because all results are void
	told  string    // blind, because the runner of the probes says so; "" if it does not
	why   string    // it became blind
}

func (s *sight) blind() bool { return s.void || s.told != "" }

// look takes any target's result. The first one that is not void ends the blindness that void ones made.
func (s *sight) look(r Result) []Event {
	was := s.blind()
	switch {
	case !r.Void:
		s.voids, s.void = 0, false
	case s.voids == 0:
		s.voids, s.since = 1, r.At
	default:
		s.voids++
		s.void = s.void || s.voids >= blindLeast && r.At.Sub(s.since) >= blindAfter
	}
	return s.turned(was, r.At, r.Reason)
}

// rest ends the blindness that void results made, when no target is left to give any.
func (s *sight) rest(now time.Time) []Event {
	was := s.blind()
	s.voids, s.void = 0, false
	return s.turned(was, now, "")
}

// turned returns the event if the blindness began or ended.
func (s *sight) turned(was bool, now time.Time, why string) []Event {
	switch is := s.blind(); {
	case is && !was:
		s.why = why
		return []Event{{Kind: WentBlind, At: now, Reason: why}}
	case !is && was:
		return []Event{{Kind: SeesAgain, At: now}}
	}
	return nil
}

// SetBlind tells that results mean nothing, for a reason that the results do not show, such as probes that start much
// too late; "" ends that. Until then every result counts as void.
func (b *Board) SetBlind(why string, now time.Time) []Event {
	was := b.sight.blind()
	b.sight.told = why
	return b.sight.turned(was, now, why)
}

// Blind returns why no probe works, by our own fault; "" if probes do.
func (b *Board) Blind() string {
	if !b.sight.blind() {
		return ""
	}
	return b.sight.why
}

package health

import "time"

// blindAfter is how long all results must be void for the checker to call itself blind.
const blindAfter = 3 * time.Second

// sight knows whether the checker can see at all.
type sight struct {
	void  time.Time // of the first void result since the last other one; zero if that was not void
	blind bool
}

// look takes any target's result. The first one that is not void ends the blindness.
func (s *sight) look(r Result) []Event {
	switch {
	case !r.Void:
		was := s.blind
		*s = sight{}
		if was {
			return []Event{{Kind: SeesAgain, At: r.At}}
		}
	case s.void.IsZero():
		s.void = r.At
	case !s.blind && r.At.Sub(s.void) >= blindAfter:
		s.blind = true
		return []Event{{Kind: WentBlind, At: r.At, Reason: r.Reason}}
	}
	return nil
}

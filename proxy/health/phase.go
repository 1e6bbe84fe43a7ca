package health

import "fmt"

// Phase is where a target is between up and down. The zero value is Unknown.
type Phase uint8

// The phases. A target that is Failing is still up, and one that is Recovering is still down.
const (
	Unknown    Phase = iota // no result yet
	Up                      //
	Failing                 // up, but the last results were bad
	Down                    //
	Recovering              // down, but the last results were good
)

var phases = [...]string{"unknown", "up", "failing", "down", "recovering"}

// Phases returns all phases.
func Phases() []Phase {
	all := make([]Phase, len(phases))
	for i := range all {
		all[i] = Phase(i)
	}
	return all
}

// String returns the phase in lower case.
func (p Phase) String() string { return phases[p] }

// MarshalText returns String.
func (p Phase) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (p *Phase) UnmarshalText(text []byte) error {
	for i, name := range phases {
		if name == string(text) {
			*p = Phase(i)
			return nil
		}
	}
	return fmt.Errorf("phase %q is not known", text)
}

// IsUp reports whether the phase is Up or Failing.
func (p Phase) IsUp() bool { return p == Up || p == Failing }

// IsDown reports whether the phase is Down or Recovering.
func (p Phase) IsDown() bool { return p == Down || p == Recovering }

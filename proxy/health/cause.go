package health

// Cause says why an endpoint's port has the weight that it has.
type Cause uint8

// The causes. Those up to Spared get connections.
const (
	Serves   Cause = iota // it is up, or not checked
	Spared                // it is down, but too few others are up to do without it
	Drained               // by the operator
	Disabled              // by the operator
	Asked                 // its agent asks for a drain, or for maintenance
	ByFile                // the source gives it weight 0, or it is not ready
	IsDown                // its target is down
	Waits                 // it has no result yet, and is to wait for one
	Standby               // a backup while others are up
)

var causes = [...]string{"serves", "spared", "drained", "disabled", "asked", "by file", "down", "waits", "standby"}

// Causes returns all causes.
func Causes() []Cause {
	all := make([]Cause, len(causes))
	for i := range all {
		all[i] = Cause(i)
	}
	return all
}

// String returns the cause in lower case.
func (c Cause) String() string { return causes[c] }

// Mode says how the endpoints of a service port are chosen.
type Mode uint8

// The modes.
const (
	Normal      Mode = iota // those that are up get connections
	OnBackups               // no other is up, so the backups get them
	FailOpen                // none is up, so all get them
	BelowLimit              // fewer are up than minHealthy, so all get them
	FailClosed              // none is up, and none gets any
	FirstResult             // all wait for their first result
)

var modes = [...]string{"normal", "on backups", "fail open", "below limit", "fail closed", "first result"}

// Modes returns all modes.
func Modes() []Mode {
	all := make([]Mode, len(modes))
	for i := range all {
		all[i] = Mode(i)
	}
	return all
}

// String returns the mode in lower case.
func (m Mode) String() string { return modes[m] }

// Panic reports whether endpoints that are down get connections.
func (m Mode) Panic() bool { return m == FailOpen || m == BelowLimit }

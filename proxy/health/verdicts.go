package health

// Verdict is the state of a target as it counts.
type Verdict struct {
	State
	// Held: the target went down in a mass failure and counts as up until that is believed.
	Held bool
}

// Serves reports whether an endpoint with this verdict gets connections, if one without a result does.
func (v *Verdict) Serves(unknown bool) bool {
	return v.Held || v.Phase.IsUp() || v.Phase == Unknown && unknown
}

// Verdicts are those of all targets. A target that is missing has no result yet.
type Verdicts struct {
	Of map[Key]Verdict
	// Blind: no probe works because of a fault of our own. The verdicts are the last ones before that.
	Blind bool
}

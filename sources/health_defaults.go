package sources

import (
	"slices"
	"time"
)

// HealthKeys is a set of the keys of a health check whose defaults svcproxy.toml has, in table health.
type HealthKeys uint16

// The keys.
const (
	HealthInterval HealthKeys = 1 << iota
	HealthTimeout
	HealthFall
	HealthRise
	HealthFastInterval
	HealthDownInterval
	HealthJitter
	HealthOnDown
	HealthOnAllDown
	HealthMinHealthy
	HealthSlowStart

	allHealthKeys = 1<<iota - 1
)

// Has reports whether the set has a key.
func (k HealthKeys) Has(key HealthKeys) bool { return k&key != 0 }

// DefaultHealthCheck returns a check without a type in which every key has its default. All keys are Unset.
func DefaultHealthCheck() HealthCheck {
	return HealthCheck{
		Probe:    Probe{Timeout: 2 * time.Second},
		Interval: 2 * time.Second, FastInterval: 500 * time.Millisecond, DownInterval: 2 * time.Second, Jitter: 0.1,
		Fall: 3, Rise: 2, Initial: InitialKernel, OnDown: DownDrain, OnAllDown: AllDownOpen, Unset: allHealthKeys,
	}
}

// OnNode returns the check with a node's defaults in the keys that the service does not give. These stay Unset: what
// the service gives itself is warned of there, and new defaults can replace the old ones.
func (c HealthCheck) OnNode(defaults HealthCheck) HealthCheck {
	for _, f := range healthDefaults {
		if c.Unset.Has(f.key) {
			f.copy(&c, &defaults)
		}
	}
	return c
}

// healthDefaults are the keys with the fields that they set.
var healthDefaults = []struct {
	key  HealthKeys
	copy func(to, from *HealthCheck)
}{
	{HealthInterval, func(to, from *HealthCheck) { to.Interval = from.Interval }},
	{HealthTimeout, func(to, from *HealthCheck) { to.Probe.Timeout = from.Probe.Timeout }},
	{HealthFall, func(to, from *HealthCheck) { to.Fall = from.Fall }},
	{HealthRise, func(to, from *HealthCheck) { to.Rise = from.Rise }},
	{HealthFastInterval, func(to, from *HealthCheck) { to.FastInterval = from.FastInterval }},
	{HealthDownInterval, func(to, from *HealthCheck) { to.DownInterval = from.DownInterval }},
	{HealthJitter, func(to, from *HealthCheck) { to.Jitter = from.Jitter }},
	{HealthOnDown, func(to, from *HealthCheck) { to.OnDown = from.OnDown }},
	{HealthOnAllDown, func(to, from *HealthCheck) { to.OnAllDown = from.OnAllDown }},
	{HealthMinHealthy, func(to, from *HealthCheck) {
		to.MinHealthy, to.MinHealthyPercent = from.MinHealthy, from.MinHealthyPercent
	}},
	{HealthSlowStart, func(to, from *HealthCheck) { to.SlowStart = from.SlowStart }},
}

// slowStarters are the schedulers that heed weights and do not move clients when one changes. rr, lc and dh ignore
// weights. mh and sh rebuild their table for each change, which gives some clients another endpoint.
var slowStarters = []string{"wrr", "wlc", "sed", "nq", "lblc", "lblcr"}

// SlowStarts reports whether slow start works under a scheduler.
func SlowStarts(scheduler string) bool { return slices.Contains(slowStarters, scheduler) }

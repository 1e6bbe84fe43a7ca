package config

import (
	"fmt"
	"slices"
	"strings"
)

// fixed are the keys, and the tables, that a running process keeps as they were
// when it started: its mode, what its objects and folders are called, who it
// is, and where its services come from. Another value needs a restart.
var fixed = []string{
	"mode", "hostnameOverride", "stateDir", "runtimeDir", "ipvs.deviceName", "ipvs.namePrefix",
	"featureGates", "showHiddenMetricsForVersion", "clientConnection", "sources",
}

// live says whether the field can change while the process runs.
func (f field) live() bool { return !within(f.key, fixed) }

// within says whether a key is one of these, or in a table that is.
func within(key string, keys []string) bool {
	return slices.ContainsFunc(keys, func(k string) bool { return key == k || strings.HasPrefix(key, k+".") })
}

// Kept is a key that a reload cannot change: the values are TOML.
type Kept struct{ Key, Running, Wanted string }

func (k Kept) String() string {
	return fmt.Sprintf("%s = %s, running with %s", k.Key, k.Wanted, k.Running)
}

// Adopt is what a running process makes of a configuration that was read anew:
// all of next, save what only a restart can change. Those keys have the running
// value, and are in kept where next has another. Both must be what Decode gives.
func (running Config) Adopt(next Config) (now Config, kept []Kept) {
	now = next
	now.ClientConnection.Master = running.ClientConnection.Master
	for _, f := range fields {
		was, wanted := f.value(&running), f.value(&next)
		if f.live() || toml(was) == toml(wanted) {
			continue
		}
		kept = append(kept, Kept{f.key, toml(was), toml(wanted)})
		// It came from set, so set takes it.
		_ = f.value(&now).set(was.get())
	}
	return now, kept
}

// Change is a key with another value than before; the values are TOML.
type Change struct{ Key, From, To string }

// Changes are the keys in which two configurations differ, in the order in which
// they are written.
func (c Config) Changes(to Config) []Change {
	var changes []Change
	for _, f := range fields {
		if a, b := toml(f.value(&c)), toml(f.value(&to)); a != b {
			changes = append(changes, Change{f.key, a, b})
		}
	}
	return changes
}

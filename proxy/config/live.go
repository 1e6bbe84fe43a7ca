package config

import "fmt"

// Kept is a key that a reload cannot change. Its values are TOML.
type Kept struct{ Key, Running, Wanted string }

func (k Kept) String() string {
	return fmt.Sprintf("%s = %s, running with %s", k.Key, k.Wanted, k.Running)
}

// Adopt returns next with the running values of the keys that only a restart can
// change. kept lists those where next has another value. Both must come from Decode.
func (running Config) Adopt(next Config) (now Config, kept []Kept) {
	now = next
	now.ClientConnection.Master = running.ClientConnection.Master
	for _, f := range allFields {
		was, wanted := f.toml(&running), f.toml(&next)
		if !f.is(restart) || was == wanted {
			continue
		}
		kept = append(kept, Kept{f.key, was, wanted})
		_ = f.set(&now, f.Get(&running)) // a value of a Config is valid
	}
	return now, kept
}

// Change is a key whose value has changed. Its values are TOML.
type Change struct{ Key, From, To string }

// Changes lists the keys in which two configurations differ, in the order of the table. Their values are for the log,
// without secrets.
func (c Config) Changes(to Config) []Change {
	var changes []Change
	from, now := c.public(), to.public()
	for _, f := range allFields {
		if a, b := f.toml(&c), f.toml(&to); a != b {
			changes = append(changes, Change{f.key, f.toml(&from), f.toml(&now)})
		}
	}
	return changes
}

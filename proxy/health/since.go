package health

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"time"
)

// sinceVersion is the schema of the JSON form of Since.
const sinceVersion = 1

// Since has since when targets are up or down, and why, for the next start. Whether they are is in the kernel.
type Since map[string]sinceOf

type sinceOf struct {
	Down   bool      `json:"down,omitempty"`
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"`
}

// name names a target in a file. Another version of svcproxy may have other probes: then it finds nothing,
// and no harm is done.
func (k Key) name() string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%v", k.Probe.Value())
	return fmt.Sprintf("%s %s %x", k, k.Service, h.Sum64())
}

// Changes are what Since has, not yet formatted.
type Changes []changed

type changed struct {
	key Key
	sinceOf
}

// Changes returns those of all targets that went up or down. A caller has a lock that probes need, so that it
// formats nothing.
func (b *Board) Changes() Changes {
	all := make(Changes, 0, len(b.targets))
	for k, x := range b.targets {
		if !x.Changed.IsZero() {
			all = append(all, changed{k, sinceOf{x.Phase.IsDown(), x.Changed, x.Reason}})
		}
	}
	return all
}

// In gives verdicts taken over from the kernel the time and the reason that an earlier run had for the same.
func (s Since) In(verdicts map[Key]Verdict) {
	for k, v := range verdicts {
		if was, found := s[k.name()]; found && v.Changed.IsZero() && v.Phase != Unknown && was.Down == v.Phase.IsDown() {
			v.Changed, v.Reason = was.Since, was.Reason
			verdicts[k] = v
		}
	}
}

// sinceJSON is the content of since.json.
type sinceJSON struct {
	Version int                `json:"version"`
	Targets map[string]sinceOf `json:"targets"`
}

// MarshalJSON returns the content of since.json.
func (c Changes) MarshalJSON() ([]byte, error) {
	targets := make(map[string]sinceOf, len(c))
	for i := range c {
		of := c[i].sinceOf
		of.Since = of.Since.UTC()
		targets[c[i].key.name()] = of
	}
	return json.Marshal(sinceJSON{sinceVersion, targets})
}

// ParseSince reads the content of since.json. Its error quotes nothing of it. Times after now, which a clock
// that was set may have left, are left out.
func ParseSince(data []byte, now time.Time) (Since, error) {
	var file sinceJSON
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, errors.New("not the JSON of states of health checks")
	}
	if file.Version != sinceVersion {
		return nil, fmt.Errorf("%w %d, want %d", errVersion, file.Version, sinceVersion)
	}
	for name, of := range file.Targets {
		if of.Since.After(now) || len(of.Reason) > maxSaid || of.Since.IsZero() {
			delete(file.Targets, name)
		}
	}
	return file.Targets, nil
}

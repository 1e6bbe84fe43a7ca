package health

import (
	"cmp"
	"time"
)

// In a mass failure more than half of the targets that were up go down within the time that it takes to detect a
// failure. They belong to at least massServices services. The likelier cause is then this node's own link or route.
// The last states are held for massHold: long enough for a spanning tree or a routing protocol.
const (
	massServices = 3
	massHold     = time.Minute
)

// mass notices a mass failure. Each target costs the same, however many fall.
type mass struct {
	window   time.Duration // the longest detection time of any target
	recent   []fallen      // in order of time; those count whose target has the same time
	count    int           // of those that count
	services map[int32]int // how many of these a service has
	until    time.Time     // of the hold under way; zero if there is none
}

// fallen is a target that went down.
type fallen struct {
	key Key
	at  time.Time
}

func (m *mass) holding() bool { return !m.until.IsZero() }

// Holding returns until when the last states are held because of a mass failure; zero if they are not.
func (b *Board) Holding() time.Time { return b.mass.until }

// window returns the time in which a failure of all targets at once is detected for all of them. It is more than an
// interval: of the probes that a dead link fails, some are refused a route at once, and others wait for their timeout.
func window(targets []Target) time.Duration {
	longest := time.Duration(0)
	for i := range targets {
		p, timeout := &targets[i].Pace, targets[i].Probe.Value().Timeout
		again := time.Duration(p.Fall-1) * (cmp.Or(p.FastInterval, p.Interval) + timeout)
		longest = max(longest, p.Interval+timeout+again)
	}
	return longest
}

// fell notes that a target went down that was up, and decides whether that is a mass failure.
func (b *Board) fell(k Key, x *tracked, now time.Time) []Event {
	m := &b.mass
	old := 0
	for ; old < len(m.recent) && now.Sub(m.recent[old].at) > m.window; old++ {
		if f := m.recent[old]; b.targets[f.key] != nil && b.targets[f.key].fell.Equal(f.at) {
			b.forget(b.targets[f.key])
		}
	}
	m.recent = append(m.recent[old:], fallen{k, now})
	b.remember(x, now)
	if of := b.up + m.count; 2*m.count > of && len(m.services) >= massServices {
		return b.massFailed(of, now)
	}
	return nil
}

// remember counts a target that went down.
func (b *Board) remember(x *tracked, at time.Time) {
	x.fell = at
	b.mass.count++
	if b.mass.services == nil {
		b.mass.services = map[int32]int{}
	}
	for _, s := range x.services {
		b.mass.services[s]++
	}
}

// forget no longer counts a target, if it was counted.
func (b *Board) forget(x *tracked) {
	if x.fell.IsZero() {
		return
	}
	x.fell = time.Time{}
	b.mass.count--
	for _, s := range x.services {
		if b.mass.services[s]--; b.mass.services[s] == 0 {
			delete(b.mass.services, s)
		}
	}
}

// massFailed holds the targets that went down at what they were before.
func (b *Board) massFailed(of int, now time.Time) []Event {
	m := &b.mass
	events := []Event{{Kind: MassFailure, At: now, Down: m.count, Of: of}}
	for _, f := range m.recent {
		x := b.targets[f.key]
		if x == nil || !x.fell.Equal(f.at) {
			continue
		}
		b.forget(x)
		if !b.Believe {
			x.Held = true
			events = append(events, Event{Kind: IsHeld, At: now, Key: f.key, Verdict: x.Verdict})
		}
	}
	m.recent = nil
	if !b.Believe {
		m.until = now.Add(massHold)
	}
	return events
}

package probe

import (
	"context"
	"net/netip"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// Target is an address and what to ask it. The caller fills in the exported fields, gives the target to a Runner,
// and changes none of them afterwards. With its place in the queue a target takes 144 bytes.
type Target struct {
	Probe   *sources.Probe // may be shared by targets
	Address netip.AddrPort
	Meta    Meta
	Service string  // takes the places that its probes need: its name, or any other word
	Jitter  float64 // the fraction of an interval by which the next probe is earlier at most
	Owner   any     // the caller's

	group     *group
	cancel    context.CancelFunc // ends the probe that is running; nil if connects makes it
	every     time.Duration      // its interval while all is well, by which lateness is measured
	hash      uint64
	due       time.Duration // since the runner's epoch
	started   time.Duration // likewise; of the probe that is running
	slowUntil time.Duration // likewise; it is not prompt before
	place     int32         // in the list that its state names
	probes    uint32        // how many were scheduled
	state     state
	quick     uint8 // prompt probes in a row, promptAfter at most
	class     uint8 // of the place that it has or waits for
	down      bool  // see Next
	known     bool  // it was probed
	gone      bool  // removed while its probe was running
	cut       bool  // its probe was ended early: see Runner.cut
	failed    bool  // the last connection that connects made of it; of Run's goroutine
}

// state is which list of the runner has a target.
type state uint8

const (
	removed state = iota // none
	waiting              // the queue
	ready                // its share: it is due, and waits for a place
	running
)

// FNV-1a.
const (
	hashOffset = 14695981039346656037
	hashPrime  = 1099511628211
)

// hashOf returns the same number for equal targets, also after a restart.
func hashOf(t *Target) uint64 {
	h := uint64(hashOffset)
	add := func(s string) {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * hashPrime
		}
		h = (h ^ 0xff) * hashPrime
	}
	address := t.Address.Addr().As16()
	add(string(address[:]))
	h = (h ^ uint64(t.Address.Port())) * hashPrime
	p := t.Probe
	for _, s := range [...]string{string(p.Type), p.Path, p.Host, p.Query, p.Service, p.Send, p.Command, p.Args} {
		add(s)
	}
	return mix(h)
}

// mix spreads the bits of neighbouring numbers: the last step of MurmurHash3.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// first returns how long after it was added a target is probed first.
func (t *Target) first() time.Duration {
	return time.Duration(t.hash % uint64(t.every))
}

// schedule moves the due time past now. It counts from the last due time, not from the end of the probe: targets
// keep their distance from each other when probes run late. A probe that outlasts its interval skips a turn. Jitter
// only shortens an interval: the time of detection that the configuration promises holds with it.
func (t *Target) schedule(now, interval time.Duration) {
	interval = max(interval, minInterval)
	t.probes++
	if t.Jitter > 0 {
		part := float64(mix(t.hash+uint64(t.probes))>>11) / (1 << 53) // from 0 to 1
		t.due -= time.Duration(float64(interval) * part * min(t.Jitter, 0.5))
	}
	t.due += interval
	if t.due <= now {
		t.due += (now - t.due + interval) / interval * interval
	}
}

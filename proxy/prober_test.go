package proxy

import (
	"net/netip"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
)

// An answer lasts until the next sync, which may have to wait for minSyncPeriod.
func TestAnswerOutlivesMinSyncPeriod(t *testing.T) {
	p, now := newProber(nil), time.Now()
	c := kernel.Claim{Addr: netip.MustParseAddr("192.0.2.80"), Link: "eth0"}
	p.answers[c] = answer{claim: c, at: now}
	if o := p.heard(now.Add(15*time.Second), 15*time.Second); len(o.Probed) != 1 {
		t.Errorf("after a gap of 15 s: %v, want the answer", o.Probed)
	}
	if o := p.heard(now.Add(15*time.Second), time.Second); len(o.Probed) != 0 {
		t.Errorf("after 15 s, with a gap of 1 s: %v, want none", o.Probed)
	}
}

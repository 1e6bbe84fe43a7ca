package proxy

import "time"

// Another program may change rules of nftables at any rate, and each check of ours runs tools. So checks after such
// changes take a twentieth of the time in the long run. Each counts as 50 ms at least, so there is at most one in a
// second. The first twenty follow at once, since the restart of a firewall changes rules several times. The check of
// each sync period does not wait for them.
const (
	budgetShare = 20
	budgetBurst = time.Second
	budgetLeast = 50 * time.Millisecond
)

// budget is what these checks took and the time since then has not made good. It reads no clock.
type budget struct {
	spent time.Duration
	at    time.Time // of the last check
}

// next is when there is room for a check; zero is at once.
func (b budget) next() time.Time {
	if over := b.spent - budgetBurst; over >= 0 {
		return b.at.Add(over * budgetShare).Add(budgetLeast * budgetShare)
	}
	return time.Time{}
}

// spend notes a check.
func (b *budget) spend(now time.Time, took time.Duration) {
	b.spent = max(b.spent-now.Sub(b.at)/budgetShare, 0) + max(took, budgetLeast)
	b.at = now
}

// rulesDue reports whether rules that another program changed are to be checked now.
func (p pace) rulesDue(now time.Time) bool { return p.written && !now.Before(p.rules.next()) }

// checksRules reports whether the sync that begins now checks the rules because another program changed some.
func (p *pace) checksRules(now time.Time) bool {
	_, check := p.check(now)
	p.checking = check && p.written
	return p.checking
}

// checkedRules notes what such a check took. One that repaired something counts least, so that a second change is
// repaired soon, too. One that cannot repair it counts whole, or it would be repeated each second.
func (p *pace) checkedRules(now time.Time, r *Report) {
	if !p.checking {
		return
	}
	p.checking, p.written = false, false
	took := r.Duration
	if r.Steps > 0 && r.Err == nil {
		took = 0
	}
	p.rules.spend(now, took)
}

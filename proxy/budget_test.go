package proxy

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// However often other programs change rules, and whatever a check takes: in the long run there is at most one check
// in a second, and checks take a twentieth of the time. After a pause a change is checked at once.
func TestBudgetOfRuleChecks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		took := time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms of a check")) * time.Millisecond
		gap := time.Duration(rapid.IntRange(10, 1000).Draw(t, "ms between changes")) * time.Millisecond
		counts := max(took, budgetLeast)
		const long = time.Minute
		began := time.Unix(1000, 0)
		p := pace{period: time.Hour, lastSync: began, lastCheck: began}
		checks := 0
		for now := began; now.Before(began.Add(long)); now = now.Add(gap) {
			p.written = true
			if p.due().After(now) {
				continue
			}
			if !p.checksRules(now) {
				t.Fatalf("after %v a check is due and not made", now.Sub(began))
			}
			p.checkedRules(now, &Report{Duration: took})
			p.lastSync = now
			checks++
		}
		most := (budgetBurst+long/budgetShare)/counts + 2
		if time.Duration(checks) > most {
			t.Errorf("%d checks of %v in %v, want at most %d", checks, took, long, most)
		}
		if least := long / max(gap, 2*budgetShare*counts); time.Duration(checks) < least {
			t.Errorf("%d checks of %v in %v, want at least %d", checks, took, long, least)
		}
		p.written = true
		if pause := began.Add(long + budgetShare*(budgetBurst+counts)); p.due().After(pause) {
			t.Errorf("after a pause a check is due at %v, want %v", p.due(), pause)
		}
	})
}

// Time in which rules were repaired was not in vain.
func TestBudgetOfRepairs(t *testing.T) {
	p := pace{period: time.Hour, lastSync: time.Unix(1000, 0), lastCheck: time.Unix(1000, 0)}
	now := time.Unix(1001, 0)
	for range 5 {
		p.written = true
		if !p.checksRules(now) {
			t.Fatal("a check waits")
		}
		p.checkedRules(now, &Report{Duration: 10 * time.Second, Steps: 1})
	}
}

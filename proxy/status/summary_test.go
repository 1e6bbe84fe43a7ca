package status

import (
	"fmt"
	"slices"
	"testing"
)

// The summary has the exit code of the command, and says what is wrong whenever that is not 0.
func TestSummary(t *testing.T) {
	st := func(change func(*Status)) Status {
		s := Status{Healthy: true, Services: []Service{{Name: "a", State: Serving}}, Sources: []Source{{Name: "file", Delivered: true}}}
		change(&s)
		return s
	}
	for _, c := range []struct {
		st   Status
		code Verdict
		want string
	}{
		{st(func(s *Status) {}), Well, "[]"},
		{st(func(s *Status) { s.Warnings = []string{"a small hash"} }), Well, "[]"},
		{st(func(s *Status) { s.Services[0].State, s.Services[0].Reason = NoBackends, "no endpoints" }), Empty, "[1 service without backends]"},
		{st(func(s *Status) {
			s.Health = &Health{Targets: 9, States: map[HealthState]int{"up": 6, "down": 2, "recovering": 1}}
		}), Well, "[3 of 9 targets down]"},
		{st(func(s *Status) { s.Services[0].State, s.Problems = Conflicting, []string{"conflict"} }), Degraded, "[1 service in conflict]"},
		{st(func(s *Status) { s.Totals.Faults, s.Problems = 2, []string{"the kernel refuses 2 objects"} }), Degraded, "[2 objects refused by the kernel]"},
		{st(func(s *Status) { s.Sources[0].Errors, s.Problems = []string{"x"}, []string{"x"} }), Degraded, "[a services file is refused]"},
		{st(func(s *Status) { s.Problems = []string{"something new"} }), Degraded, "[degraded]"},
		{st(func(s *Status) { s.Healthy, s.Problems = false, []string{"changes wait"} }), Degraded, "[not in sync]"},
	} {
		got := c.st.Summary()
		if got.Code != int(c.code) || fmt.Sprint(got.Wrong) != c.want {
			t.Errorf("%d, %q; want %d, %s", got.Code, got.Wrong, c.code, c.want)
		}
		if want := map[bool][]string{true: {"a has no backends: no endpoints"}}[c.code == Empty]; !slices.Equal(got.Empty, want) {
			t.Errorf("empty: %q, want %q", got.Empty, want)
		}
	}
}

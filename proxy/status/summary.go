package status

import (
	"fmt"

	"github.com/svcproxy/svcproxy/sources"
)

// Summary is a status in a few words, for a badge.
type Summary struct {
	// Code is what `svcproxy status` exits with.
	Code int `json:"code"`
	// Wrong says what is wrong, the worst first; empty if nothing is. It has at least one line if Code is not 0, and also
	// says what Code does not, such as targets that are down while others serve.
	Wrong []string `json:"wrong"`
	// Empty are the first services without backends, with the reason.
	Empty []string `json:"withoutBackends"`
}

// maxSummaryLines bounds Summary.Empty.
const maxSummaryLines = 10

// Summary returns the summary.
func (st *Status) Summary() Summary {
	s := Summary{Code: int(st.Verdict("")), Wrong: []string{}, Empty: []string{}}
	add := func(n int, one, many string) {
		switch {
		case n == 1:
			s.Wrong = append(s.Wrong, "1 "+one)
		case n > 1:
			s.Wrong = append(s.Wrong, fmt.Sprintf("%d %s", n, many))
		}
	}
	say := func(wrong bool, text string) {
		if wrong {
			s.Wrong = append(s.Wrong, text)
		}
	}
	states := map[State]int{}
	withheld := 0
	for i := range st.Services {
		states[st.Services[i].State]++
		if x := &st.Services[i]; x.State == NoBackends && len(s.Empty) < maxSummaryLines {
			s.Empty = append(s.Empty, x.Name+" has no backends: "+x.Reason)
		}
		if len(st.Services[i].Withheld) > 0 && st.Services[i].State != LeftOut {
			withheld++
		}
	}
	say(!st.Healthy, "not in sync")
	add(states[NoBackends], "service without backends", "services without backends")
	add(states[Panic], "service in panic", "services in panic")
	add(states[Conflicting], "service in conflict", "services in conflict")
	add(states[Missing], "service missing in the kernel", "services missing in the kernel")
	add(states[LeftOut], "service left out", "services left out")
	add(withheld, "service left out in part", "services left out in part")
	add(st.Totals.Faults, "object refused by the kernel", "objects refused by the kernel")
	say(st.Totals.Faults == 0 && st.Sync.Error != "", "the last sync failed")
	if h := st.Health; h != nil {
		say(h.Blind != "", "health checks tell nothing")
		say(!h.Held.IsZero(), "a mass failure")
		if down := h.States["down"] + h.States["recovering"]; down > 0 {
			say(true, fmt.Sprintf("%d of %s down", down, sources.Count(h.Targets, "target")))
		}
	}
	for i, c := range st.Conditions {
		say(i == 0 || c.Kind != st.Conditions[i-1].Kind, c.Kind.Meaning())
	}
	say(st.Daemon.Config.Error != "", "the configuration is refused")
	for _, source := range st.Sources {
		words := sources.WordsFor(source.Name)
		say(len(source.Errors) > 0, words.Refused)
		say(!source.Delivered, words.Waiting)
	}
	add(st.Totals.Barred, "warning of a firewall", "warnings of a firewall")
	say(st.Daemon.SteppedDown() != "", "mode "+st.Daemon.Mode+" instead of a better one")
	say(s.Code != int(Well) && len(s.Wrong) == 0, "degraded")
	return s
}

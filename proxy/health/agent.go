package health

import (
	"net/netip"

	"github.com/svcproxy/svcproxy/sources"
)

// Words are what one answer of an agent says. Of each kind the last word of the answer counts, as in HAProxy.
type Words struct {
	Up, Down bool // "up"; "down", "fail" or "stopped"; neither = no word about health

	Ask  Ask
	Asks bool // Ask was said; "ready" is AskNothing

	Percent    uint16 // of the weight
	HasPercent bool   // Percent was said
}

// Said is what the words of an agent have left. Each stays until the agent says another word of its kind, as in
// HAProxy: an agent that said "drain" and goes on with "up" is drained until it says "ready". It is comparable, and its
// zero is that of an agent that has said nothing.
type Said struct {
	Down       string // the reason of the result that said so; "" = not down
	Ask        Ask
	Percent    uint16
	HasPercent bool
}

// after returns what has been said once the agent gave the answer r.
func (s Said) after(r Result) Said {
	switch w := r.Words; {
	case w.Down:
		s.Down = r.Reason
	case w.Up:
		s.Down = ""
	}
	if r.Words.Asks {
		s.Ask = r.Words.Ask
	}
	if r.Words.HasPercent {
		s.Percent, s.HasPercent = r.Words.Percent, true
	}
	return s
}

// judge returns an answer with what all words until now come to. An answer without a word about health changes nothing
// about it: the server is down if the last such word was.
func (s Said) judge(r Result) Result {
	if r.Good = s.Down == ""; !r.Good {
		r.Reason = s.Down
	}
	r.Percent, r.Ask = s.share()
	return r
}

// share returns the share of the weight, 0 if none was said, and what the agent asks for. 0 % gets no connections.
func (s Said) share() (uint16, Ask) {
	if s.HasPercent && s.Percent == 0 && s.Ask == AskNothing {
		return 0, AskDrain
	}
	return s.Percent, s.Ask
}

// decides reports whether no more is to be known of an endpoint's weight: it is out, or down, by a word of its agent.
func (s Said) decides() bool {
	_, ask := s.share()
	return ask != AskNothing || s.Down != ""
}

// state returns the state of a target at a start, of whose agent no more is known.
func (s Said) state(p Phase, reason string) State {
	if s.Down != "" {
		p, reason = Down, s.Down
	}
	x := State{Phase: p, Reason: reason, Said: s}
	x.Percent, x.Ask = s.share()
	return x
}

// Agent identifies an agent over a restart: its address, and what it is sent.
type Agent struct {
	Addr netip.AddrPort
	Send string
}

// agentOf returns the agent that a target asks; false if it asks none.
func agentOf(k Key) (Agent, bool) {
	p := k.Probe.Value()
	return Agent{k.Addr, p.Send}, p.Type == sources.CheckAgent
}

// Agents is what agents have said. Those that have said nothing are not in it.
type Agents map[Agent]Said

// of returns what the agent of a target has said; its zero if it asks none.
func (a Agents) of(k Key) Said {
	if len(a) == 0 {
		return Said{}
	}
	agent, _ := agentOf(k)
	return a[agent]
}

// Agents returns what the agents of all targets have said, and of those in before whose targets it does not
// have. Services with different checks have several targets of one agent, which may have heard different
// words: see over.
func (b *Board) Agents(before Agents) Agents {
	now, asked := Agents{}, map[Agent]struct{}{}
	for k, x := range b.targets {
		agent, ok := agentOf(k)
		if !ok {
			continue
		}
		asked[agent] = struct{}{}
		if last, found := now[agent]; x.Said != (Said{}) && (!found || x.Said.over(last)) {
			now[agent] = x.Said
		}
	}
	for agent, said := range before {
		if _, found := asked[agent]; !found {
			now[agent] = said
		}
	}
	return now
}

// over reports whether s rather than o is kept of one agent: the one that asks for more, then the one that is
// down, then the one with a share, the smaller one.
func (s Said) over(o Said) bool {
	switch {
	case s.Ask != o.Ask:
		return s.Ask > o.Ask
	case (s.Down == "") != (o.Down == ""):
		return s.Down != ""
	case s.HasPercent != o.HasPercent:
		return s.HasPercent
	case s.Percent != o.Percent:
		return s.Percent < o.Percent
	}
	return s.Down < o.Down
}

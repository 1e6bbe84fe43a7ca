package kernel

import (
	"fmt"
	"strings"
	"time"
)

// Memory is what is known between two plans and no reading shows. plan.Diff returns the one after its plan. The loop
// keeps it, if the plan was carried out; a restart loses it. Its lists are sorted.
type Memory struct {
	// Owned lists the virtual servers that the previous reading owned. They stay owned if the ownership set is emptied by
	// hand.
	Owned []VirtualKey
	// Left lists the virtual servers that kube-proxy left and no service wanted. They are not owned.
	Left []Virtual
	// Drains lists the drains in progress.
	Drains []Drain
	// Cut lists the real servers that the last plan cut: flows to these are removed.
	Cut []RealKey
	// Unremoved lists the UDP flows that the last plan could not remove. No other difference would remove them.
	Unremoved []RealKey
	// Quiesced lists the real servers that had weight 0 in the last plan that was not held.
	Quiesced []RealKey
}

// Drain is a real server that waits until its connections end.
type Drain struct {
	Real  RealKey
	Since time.Time
}

// Now is when a plan is made, and what other hosts answered by then.
type Now struct {
	Time time.Time
	// Probed lists claims that no other host on the link answered for just now, Taken
	// those that another host answered for. Both are sorted.
	Probed []Claim
	Taken  []Taken
}

// String is the canonical text. ParseAll reads it back.
func (m Memory) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, directive+format+"\n", args...) }
	for _, k := range m.Owned {
		line("owned %s", k)
	}
	for _, v := range m.Left {
		line("remembers-left %s", v)
	}
	for _, d := range m.Drains {
		line("drain %s %s", d.Since.Format(time.RFC3339Nano), d.Real)
	}
	for _, k := range m.Cut {
		line("was-cut %s", k)
	}
	for _, k := range m.Unremoved {
		line("unremoved %s", k)
	}
	for _, k := range m.Quiesced {
		line("was-quiesced %s", k)
	}
	return b.String()
}

// remembered reads a line of Memory.String.
func (p *parser) remembered(f []string) (err error) {
	m := &p.memory
	var k RealKey
	switch f[0] {
	case "owned":
		return appendKey(&m.Owned, f[1:])
	case "remembers-left":
		return p.recorded(f[1:], &m.Left)
	case "drain":
		return p.drain(f[1:])
	case "was-cut":
		k, _, err = parseRealKey(f[1:])
		m.Cut = append(m.Cut, k)
	case "unremoved":
		k, _, err = parseRealKey(f[1:])
		m.Unremoved = append(m.Unremoved, k)
	case "was-quiesced":
		k, _, err = parseRealKey(f[1:])
		m.Quiesced = append(m.Quiesced, k)
	}
	return err
}

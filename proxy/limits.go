package proxy

import (
	"errors"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// limits is what the loop knows of limits for clients, which need nftables in any mode.
type limits struct {
	can bool   // the kernel has what they need
	why string // what it lacks
}

// noLimits returns what the kernel lacks for limits, "" if it lacks nothing or no service has any. What is missing may
// be loaded later, so it asks again whenever the kernel is checked.
func (p *Proxy) noLimits(checked bool) string {
	l := &p.limits
	if p.Limits == nil || l.can || !checked && !p.merger.Moves(p.input.tables) {
		return l.why
	}
	l.why = ""
	if sources.Limited(p.input.tables) {
		err := p.Limits()
		missing := new(kernel.MissingError)
		if l.can = err == nil; errors.As(err, &missing) { // after any other error the sync fails
			l.why = missing.What + ": " + missing.Hint
		}
	}
	return l.why
}

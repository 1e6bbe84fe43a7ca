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
	if p.TryLimits == nil || l.can || !checked && !p.merger.Moves(p.input.tables) {
		return l.why
	}
	if !sources.Limited(p.input.tables) {
		l.why = ""
		return ""
	}
	err := p.TryLimits()
	missing := new(kernel.MissingError)
	switch {
	case err == nil:
		l.can, l.why = true, ""
	case errors.As(err, &missing):
		l.why = missing.What + ": " + missing.Hint
	case l.why != "": // no answer: the last one stays. Without one, the services are tried, and the sync says what fails
		p.Log.Warn("whether limits for clients can be served is not known, so they are not", "err", err)
	}
	return l.why
}

package ipvs

import (
	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
)

// allReals returns the real servers in the order of their virtual servers.
func allReals(f *frontend.Frontends, c mode.Config) []kernel.Real {
	_, n := f.Count()
	reals := make([]kernel.Real, 0, n)
	for i := range f.Fronts {
		reals = appendReals(reals, f, &f.Fronts[i], c)
	}
	return reals
}

// appendReals appends the real servers of one front, with its forwarding method.
func appendReals(reals []kernel.Real, f *frontend.Frontends, x *frontend.Front, c mode.Config) []kernel.Real {
	from := len(reals)
	reals = mode.AppendReals(reals, f, x)
	if !x.Traits.Has(frontend.Unmasqueraded) {
		return reals
	}
	method := f.Forward(x)
	for i := range reals[from:] {
		r := &reals[from+i]
		switch method {
		case sources.Direct:
			r.Forward = kernel.Direct
		case sources.IPIP:
			r.Forward = kernel.Tunnel
		case sources.GUE:
			r.Forward, r.Tunnel, r.TunnelPort = kernel.Tunnel, kernel.GUE, c.GUEPort
		}
	}
	return reals
}

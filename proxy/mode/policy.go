package mode

import (
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// Policy returns what the configuration and the services allow Diff to do.
func Policy(f *frontend.Frontends, c Config) kernel.Policy {
	p := kernel.Policy{
		Hold:          c.Hold,
		Probe:         c.ProbeVIPs,
		DeleteUnknown: c.DeleteUnknown,
		ExcludeCIDRs:  slices.Clone(c.ExcludeCIDRs),
		DrainTimeout:  c.DrainTimeout,
		Cut:           f.Cut(),
	}
	for i := range f.Fronts {
		x := &f.Fronts[i]
		if d := f.Service(x).DrainTimeout; d != nil {
			p.Drains = append(p.Drains, kernel.VirtualDrain{Virtual: x.Key, Timeout: *d})
		}
	}
	return p
}

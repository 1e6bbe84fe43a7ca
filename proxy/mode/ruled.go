package mode

import (
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// Ruled returns the state of a mode in which rules balance, without chains and sets, not sorted.
func Ruled(f *frontend.Frontends, c Config) kernel.State {
	s := kernel.State{Policy: Policy(f, c), Sysctls: Sysctls(f, c)}
	s.Policy.DrainVirtuals = true // those of mode ipvs
	s.Policy.DrainRules = s.Policy.DrainTimeout > 0 ||
		slices.ContainsFunc(s.Policy.Drains, func(d kernel.VirtualDrain) bool {
			return d.Timeout > 0
		})
	s.Policy.Quiesced = Quiesced(f, &s.Policy)
	if c.NoDevice {
		c.VIPBinding = BindRoute
	} else {
		s.Links = []kernel.Link{{Name: c.Names.Device, Type: "dummy"}}
	}
	AddVIPs(&s, f, c)
	return s
}

// Quiesced lists the backends of weight 0 over TCP, if any drain is limited.
func Quiesced(f *frontend.Frontends, p *kernel.Policy) (all []kernel.RealKey) {
	if !p.DrainRules {
		return nil
	}
	for i := range f.Fronts {
		x := &f.Fronts[i]
		if x.Key.Proto != kernel.TCP {
			continue
		}
		for _, b := range f.Backends(x) {
			if f.Weight(int(x.Service), b) == 0 {
				all = append(all, kernel.RealKey{Virtual: x.Key, Addr: f.Addr(int(x.Service), b)})
			}
		}
	}
	slices.SortFunc(all, kernel.RealKey.Compare)
	return all
}

package proxy

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// WithoutBackends are the names of the services that should be served and have,
// for one of their ports, no real server that takes new connections, sorted.
func (s *Snapshot) WithoutBackends() []string {
	if s == nil {
		return nil
	}
	type nodePort struct {
		port  uint16
		proto kernel.Proto
	}
	served, ports := make(map[kernel.VirtualKey]bool, len(s.Want.Virtuals)), map[nodePort]bool{}
	reals := s.Want.Reals
	for i := range s.Want.Virtuals {
		k := s.Want.Virtuals[i].Key
		if !slices.ContainsFunc(kernel.NextReals(&reals, k), func(r kernel.Real) bool { return r.Weight > 0 }) {
			continue
		}
		served[k] = true
		if s.Node.Has(k.Addr.Addr()) {
			ports[nodePort{k.Addr.Port(), k.Proto}] = true
		}
	}
	var names []string
	for i := range s.Table.Services {
		svc := &s.Table.Services[i]
		empty := func(port int) bool {
			asked, granted := false, false
			for a := range svc.PortAddresses(port) {
				asked = true
				if svc.Withholds(a) {
					continue
				}
				granted = true
				proto := kernel.Proto(a.Protocol)
				if a.Kind == sources.KindNodePort && ports[nodePort{a.Port, proto}] || served[kernel.VirtualKey{Addr: netip.AddrPortFrom(a.Addr, a.Port), Proto: proto}] {
					return false
				}
			}
			return granted || !asked // what is withheld whole is reported as left out
		}
		if !svc.Type.Serves() {
			continue
		}
		for port := range svc.Ports {
			if empty(port) {
				names = append(names, svc.FullName())
				break
			}
		}
	}
	return names
}

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
		empty := func(p sources.Port) bool {
			proto := kernel.Proto(p.Protocol)
			opens := p.NodePort != 0 && !svc.WithholdsNodePort(p.NodePort, p.Protocol)
			if opens && ports[nodePort{p.NodePort, proto}] {
				return false
			}
			vips := svc.VIPs()
			if len(svc.Withheld) > 0 {
				vips = slices.DeleteFunc(slices.Clone(vips), func(vip netip.Addr) bool { return svc.Withholds(vip, p.Port, p.Protocol) })
				if len(vips) == 0 && !opens {
					return false // it is left out there, which is said
				}
			}
			return !slices.ContainsFunc(vips, func(vip netip.Addr) bool {
				return served[kernel.VirtualKey{Addr: netip.AddrPortFrom(vip, p.Port), Proto: proto}]
			})
		}
		if svc.Type.Serves() && slices.ContainsFunc(svc.Ports, empty) {
			names = append(names, svc.FullName())
		}
	}
	return names
}

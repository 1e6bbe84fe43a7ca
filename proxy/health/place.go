package health

import (
	"net/netip"

	"github.com/svcproxy/svcproxy/sources"
)

// Place is one port of an endpoint of a service.
type Place struct {
	Service  string // its DisplayName
	Protocol sources.Protocol
	Addr     netip.AddrPort
}

// Places returns what a selector is for in a table, in the order of the table.
func (s Selector) Places(t sources.Table) []Place {
	var found []Place
	for i := range t.Services.Len() {
		of := t.Services.At(i)
		for j := range of.Endpoints {
			e := &of.Endpoints[j]
			for _, p := range e.Ports {
				if s.matches(of, e, p.Port) {
					found = append(found, Place{of.DisplayName(), p.Protocol, netip.AddrPortFrom(e.Addr, p.Port)})
				}
			}
		}
	}
	return found
}

package frontend

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// Cut returns the address of every front with each endpoint of its port that is
// cut, sorted. The endpoint is no backend, and its connections through the front
// end. Callers must not change the slice.
func (f *Frontends) Cut() []kernel.RealKey { return f.cut }

// allCut makes what Cut returns. A table without cut endpoints, as almost all are,
// costs a look at each service.
func (f *Frontends) allCut() []kernel.RealKey {
	if !slices.ContainsFunc(f.services, func(page []*service) bool {
		return slices.ContainsFunc(page, func(s *service) bool { return s.cuts })
	}) {
		return nil
	}
	var cut []kernel.RealKey
	for i := range f.Fronts {
		if x := &f.Fronts[i]; f.services.at(int(x.Service)).cuts {
			cut = f.appendCut(cut, x)
		}
	}
	return cut
}

// appendCut appends the cut endpoints of one front.
func (f *Frontends) appendCut(cut []kernel.RealKey, x *Front) []kernel.RealKey {
	from := len(cut)
	s := f.Service(x)
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if !e.Cut || kernel.FamilyOf(e.Addr) != x.Key.Family() {
			continue
		}
		if port, ok := s.PortOf(e, int(x.Port)); ok {
			cut = append(cut, kernel.RealKey{Virtual: x.Key, Addr: netip.AddrPortFrom(e.Addr, port)})
		}
	}
	slices.SortFunc(cut[from:], kernel.RealKey.Compare)
	return cut[:from+len(slices.Compact(cut[from:]))]
}

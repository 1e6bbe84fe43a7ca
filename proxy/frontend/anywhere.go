package frontend

import "github.com/svcproxy/svcproxy/kernel"

// Anywhere returns the backends that a front would have under policy Cluster, sorted by
// address. It lists the service port's endpoints again, so it is for the few fronts that
// need more than Backends.
func (f *Frontends) Anywhere(x *Front) []Backend {
	s := f.Service(x)
	l := lister{Frontends: f}
	l.candidates(s, x.Key.Family(), int(x.Port))
	return l.choose(s, l.near(), l.lost.all).backends
}

// Here reports whether a backend of the service with index i is on this node.
func (f *Frontends) Here(i int, b Backend) bool {
	return f.Table.Services.At(i).Endpoints[b.Endpoint].On(f.Node.Name, f.Config.LocalCIDRs)
}

// MaybeHere reports whether a backend is on this node or has no node name.
func (f *Frontends) MaybeHere(i int, b Backend) bool {
	return f.Table.Services.At(i).Endpoints[b.Endpoint].NodeName == "" || f.Here(i, b)
}

// Elsewhere returns the fronts from which new connections go to backends that are not on this node.
func (f *Frontends) Elsewhere() (keys []kernel.VirtualKey) {
	for i := range f.Fronts {
		x := &f.Fronts[i]
		if x.Traits.Has(Marked) {
			continue
		}
		for _, b := range f.Backends(x) {
			if a := f.Addr(int(x.Service), b).Addr(); f.Weight(int(x.Service), b) > 0 && !f.Node.Has(a) &&
				kernel.FamilyOf(a) == x.Key.Family() {
				keys = append(keys, x.Key)
				break
			}
		}
	}
	return keys
}

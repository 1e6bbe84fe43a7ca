package frontend

import (
	"slices"

	"github.com/svcproxy/svcproxy/sources"
)

// WithoutBackends returns the names of the services that have a port without any
// backend that gets new connections, in the order of the table. A port that is
// withheld at all of its addresses does not count: it is reported as left out.
func (f *Frontends) WithoutBackends() []string {
	open := f.open()
	var names []string
	for i := range f.Table.Services.Len() {
		s := f.Table.Services.At(i)
		if !s.Type.Serves() {
			continue
		}
		for p := range s.Ports {
			if !open[i][p] && !withheld(s, p) {
				names = append(names, s.DisplayName())
				break
			}
		}
	}
	return names
}

// open reports for each port of each service whether a front of it has a backend
// that gets new connections.
func (f *Frontends) open() [][]bool {
	n := 0
	for i := range f.Table.Services.Len() {
		n += len(f.Table.Services.At(i).Ports)
	}
	flags, open := make([]bool, n), make([][]bool, f.Table.Services.Len())
	for i := range f.Table.Services.Len() {
		n := len(f.Table.Services.At(i).Ports)
		open[i], flags = flags[:n], flags[n:]
	}
	for i := range f.Fronts {
		x := &f.Fronts[i]
		if is := &open[x.Service][x.Port]; !*is {
			*is = slices.ContainsFunc(f.Backends(x), func(b Backend) bool { return f.Weight(int(x.Service), b) > 0 })
		}
	}
	return open
}

// PortWithheld reports whether port p of the service with index i asks for
// addresses and gets none of them.
func (f *Frontends) PortWithheld(i, p int) bool { return withheld(f.Table.Services.At(i), p) }

// withheld reports whether a service port asks for addresses and gets none.
func withheld(s *sources.Service, port int) bool {
	asked := false
	for a := range s.PortAddresses(port) {
		if !s.Withholds(a) {
			return false
		}
		asked = true
	}
	return asked
}

package frontend

import (
	"slices"

	"github.com/svcproxy/svcproxy/sources"
)

// EmptyPort is a service port without any backend that gets new connections.
type EmptyPort struct {
	Service int // index in Table.Services
	Port    int // index in the service's Ports
}

// EmptyPorts returns the first empty port of each service that has one, in the order of
// the table. A port that is withheld at all of its addresses does not count: it is
// reported as left out.
func (f *Frontends) EmptyPorts() []EmptyPort {
	open := f.open()
	var empty []EmptyPort
	for i := range f.Table.Services.Len() {
		s := f.Table.Services.At(i)
		if !s.Type.Serves() {
			continue
		}
		for p := range s.Ports {
			if !open[i][p] && !withheld(s, p) {
				empty = append(empty, EmptyPort{i, p})
				break
			}
		}
	}
	return empty
}

// WithoutBackends returns the names of the services with an empty port, in the order of
// the table.
func (f *Frontends) WithoutBackends() []string {
	var names []string
	for _, e := range f.EmptyPorts() {
		names = append(names, f.Table.Services.At(e.Service).DisplayName())
	}
	return names
}

// open reports for each port of each service whether one of its fronts has a backend
// that gets new connections.
func (f *Frontends) open() [][]bool {
	open := make([][]bool, f.Table.Services.Len())
	n := 0
	for i := range open {
		n += len(f.Table.Services.At(i).Ports)
	}
	flags := make([]bool, n)
	for i := range open {
		n := len(f.Table.Services.At(i).Ports)
		open[i], flags = flags[:n], flags[n:]
	}
	for i := range f.Fronts {
		if x := &f.Fronts[i]; f.Counts(x).Serving > 0 {
			open[x.Service][x.Port] = true
		}
	}
	return open
}

// withheld reports whether a service port asks for addresses and gets none.
func withheld(s *sources.Service, port int) bool {
	addresses := slices.Collect(s.PortAddresses(port))
	return len(addresses) > 0 && !slices.ContainsFunc(addresses, func(a sources.Address) bool { return !s.Withholds(a) })
}

package sources

import "testing"

// An endpoint's ports are matched by name and protocol, in whatever order they are.
func TestPortOf(t *testing.T) {
	s := Service{Ports: []Port{{Name: "dns", Protocol: UDP}, {Name: "dns-tcp", Protocol: TCP}, {Name: "web", Protocol: TCP}}}
	for _, own := range [][]EndpointPort{
		{{"dns", UDP, 53}, {"dns-tcp", TCP, 54}},
		{{"dns-tcp", TCP, 54}, {"dns", UDP, 53}, {"web", UDP, 80}},
	} {
		e := Endpoint{Ports: own}
		for i, want := range []uint16{53, 54, 0} {
			if port, ok := s.PortOf(&e, i); port != want || ok != (want != 0) {
				t.Errorf("%v: port %d: %d, %t", own, i, port, ok)
			}
		}
	}
}

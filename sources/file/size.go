package file

import "github.com/svcproxy/svcproxy/sources"

// fits refuses a service that is too large, or makes the file so, before anything of it is written out. It returns the
// number of its ports.
func (d *decoder) fits(s *draft, n node) (ports int, ok bool) {
	for i := range s.ports {
		ports += s.ports[i].size()
	}
	if ports > sources.MostPorts {
		d.refuse(n, "%s", sources.TooManyPorts(ports))
		return ports, false
	}
	shape := s.shape(ports)
	if why := shape.Excess(d.size, sources.Most); why != "" {
		d.refuse(n, "%s", why)
		d.over = true
		return ports, false
	}
	d.size = d.size.Plus(shape.Size())
	return ports, true
}

// shape returns what the service's size is computed from.
func (s *draft) shape(ports int) sources.Shape {
	if !s.Type.Serves() { // its ports are written out all the same
		return sources.Shape{VIPs4: 1, Ports: ports}
	}
	h := sources.ShapeOf(&s.Service)
	h.Ports = ports
	for i := range s.ports {
		if s.ports[i].NodePort != 0 {
			h.NodePorts++
		}
	}
	for i := range s.endpoints {
		if s.endpoints[i].named() {
			continue // sources.Merge bounds what it turns out to be
		}
		if s.endpoints[i].Addr.Is4() {
			h.Endpoints4++
		} else {
			h.Endpoints6++
		}
	}
	return h
}

// took counts a service of the last reading that is taken over.
func (d *decoder) took(s *sources.Service) { d.size = d.size.Plus(sources.SizeOf(s)) }

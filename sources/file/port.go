package file

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/fields"
)

func readPorts(s *draft, n node) error {
	d := s.d
	return d.list(n, "port numbers, or tables { port = 80, ... }", func(n node) {
		p := draftPort{Port: sources.Port{Protocol: sources.TCP}}
		before := len(d.problems)
		if !n.IsTable() {
			if err := readPort(s, n); err != nil {
				d.refuseValue(n, err)
			}
			return
		}
		table(d, n, portFields, &p)
		switch {
		case len(d.problems) > before:
			return
		case p.Port.Port == 0:
			d.refuse(n, "a port has no port number: write port = 80")
			return
		case p.last != 0 && (p.Name != "" || p.TargetPort != 0 || p.NodePort != 0):
			d.refuse(n, "a range of ports has no name, targetPort or nodePort: its ports have their numbers as names, and are "+
				"the same on the endpoints")
			return
		case p.last == 0 && p.TargetPort == 0:
			p.TargetPort = p.Port.Port
		}
		s.ports = append(s.ports, p)
	})
}

// portNumber is a port number that set reads.
func portNumber[T any](set func(*T, node) error) fields.Value[T] {
	v := fields.Custom(fields.KindPort, set)
	v.Min, v.Max = fields.Port.Min, fields.Port.Max
	return v
}

// portOrRange is a port number or a range that set reads.
func portOrRange[T any](set func(*T, node) error) fields.Value[T] {
	return fields.Custom(fields.KindPortOrRange, set)
}

// draftPort is a port while it is read, or a range that ends at last.
type draftPort struct {
	sources.Port
	last uint16 // 0: a single port
}

// maxPortRange is how many ports a range may have. Each is a virtual server with its real servers. A firewall mark
// serves more of them with one.
const maxPortRange = 1000

// read reads a port number, or a range "10000-10100".
func (p *draftPort) read(n node) (err error) {
	text, _ := n.Text()
	if text == "all" || text == "any" || text == "*" {
		return fmt.Errorf("%q: a service with fwmark, instead of addresses and ports, serves all ports of a VIP", text)
	}
	from, to, ok := strings.Cut(text, "-")
	if !ok {
		p.Port.Port, err = fields.Port.Read(n)
		return err
	}
	first, err1 := strconv.ParseUint(from, 10, 16)
	last, err2 := strconv.ParseUint(to, 10, 16)
	switch {
	case err1 != nil || err2 != nil || first == 0 || first > last:
		return fmt.Errorf("%q is no range: must be from a smaller to a larger port, 1 to 65535", text)
	case last-first >= maxPortRange:
		return fmt.Errorf("%q has %d ports: at most %d; fwmark serves any number", text, last-first+1, maxPortRange)
	}
	p.Port.Port, p.last = uint16(first), uint16(last)
	return nil
}

// size is how many ports it stands for.
func (p *draftPort) size() int {
	if p.last == 0 {
		return 1
	}
	return int(p.last) - int(p.Port.Port) + 1
}

// expand writes out the ports of ranges, once their number is known to be served.
func (s *draft) expand(n int) {
	s.Ports = slices.Grow(s.Ports, n)
	for _, p := range s.ports {
		if p.last == 0 {
			s.Ports = append(s.Ports, p.Port)
			continue
		}
		for number := int(p.Port.Port); number <= int(p.last); number++ {
			s.Ports = append(s.Ports, sources.Port{Protocol: p.Protocol, Port: uint16(number), TargetPort: uint16(number)})
		}
	}
}

// readPort appends a port that is only a number, or a range of them.
func readPort(s *draft, n node) error {
	p := draftPort{Port: sources.Port{Protocol: sources.TCP}}
	if err := p.read(n); err != nil {
		return err
	}
	if p.last == 0 {
		p.TargetPort = p.Port.Port
	}
	s.ports = append(s.ports, p)
	return nil
}

// namePorts names the ports that have no name if there are several, because each needs one: "80", or "53-udp".
func namePorts(ports []sources.Port) {
	if len(ports) < 2 {
		return
	}
	for i := range ports {
		p := &ports[i]
		if p.Name != "" {
			continue
		}
		p.Name = strconv.Itoa(int(p.Port))
		if p.Protocol != sources.TCP {
			p.Name += "-" + strings.ToLower(p.Protocol.String())
		}
	}
}

var portFields = fields.Table[draftPort]{
	fields.Define("name", fields.At(func(p *draftPort) *string { return &p.Name }, fields.String),
		"", "a DNS label; absent and several ports: the number, with -udp or -sctp"),
	fields.Define("port", portOrRange((*draftPort).read),
		"", "on the service's addresses; required; a range has no name, targetPort and nodePort"),
	fields.Define("targetPort", fields.At(func(p *draftPort) *uint16 { return &p.TargetPort }, fields.Port),
		"", "on the endpoints; absent: the same as port"),
	fields.Define("nodePort", fields.At(func(p *draftPort) *uint16 { return &p.NodePort }, fields.Port),
		"", "on the node's own addresses, for type NodePort or LoadBalancer; absent: none, nothing allocates it"),
	fields.Define("protocol", fields.At(func(p *draftPort) *sources.Protocol { return &p.Protocol }, protocol),
		`"TCP"`, "what is balanced"),
}

var protocolName = word("TCP", "UDP", "SCTP")

var protocol = fields.Type[sources.Protocol]{
	Kind: protocolName.Kind, Words: protocolName.Words,
	Read: func(n node) (sources.Protocol, error) {
		name, err := protocolName.Read(n)
		if err != nil {
			return 0, err
		}
		return sources.ParseProtocol(name)
	},
}

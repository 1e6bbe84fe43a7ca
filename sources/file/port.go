package file

import (
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/fields"
)

func readPorts(s *draft, n node) error {
	d := s.d
	return d.list(n, "tables { port = 80, ... }", func(n node) {
		p := sources.Port{Protocol: sources.TCP}
		before := len(d.problems)
		table(d, n, portFields, &p)
		switch {
		case len(d.problems) > before:
			return
		case p.Port == 0:
			d.refuse(n, "a port has no port number: write port = 80")
			return
		case p.TargetPort == 0:
			p.TargetPort = p.Port
		}
		s.Ports = append(s.Ports, p)
	})
}

var portFields = fields.Table[sources.Port]{
	fields.Define("name", fields.At(func(p *sources.Port) *string { return &p.Name }, fields.String),
		"", "a DNS label; needed when there are several ports"),
	fields.Define("port", fields.At(func(p *sources.Port) *uint16 { return &p.Port }, fields.Port),
		"", "on the service's addresses; required"),
	fields.Define("targetPort", fields.At(func(p *sources.Port) *uint16 { return &p.TargetPort }, fields.Port),
		"", "on the endpoints; absent: the same as port"),
	fields.Define("nodePort", fields.At(func(p *sources.Port) *uint16 { return &p.NodePort }, fields.Port),
		"", "on the node's own addresses, for type NodePort or LoadBalancer; absent: none, nothing allocates it"),
	fields.Define("protocol", fields.At(func(p *sources.Port) *sources.Protocol { return &p.Protocol }, protocol),
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

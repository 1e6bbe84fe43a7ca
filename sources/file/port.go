package file

import "github.com/svcproxy/svcproxy/sources"

func readPorts(d *decoder, n node, s *draft) {
	d.list(n, "tables { port = 80, ... }", func(n node) {
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

var portFields = fields[sources.Port]{
	{"name", textAt(func(p *sources.Port) *string { return &p.Name }),
		"", "a DNS label; needed when there are several ports"},
	{"port", portAt(func(p *sources.Port) *uint16 { return &p.Port }),
		"", "on the service's addresses; required"},
	{"targetPort", portAt(func(p *sources.Port) *uint16 { return &p.TargetPort }),
		"", "on the endpoints; absent: the same as port"},
	{"nodePort", portAt(func(p *sources.Port) *uint16 { return &p.NodePort }),
		"", "on the node's own addresses, for type NodePort or LoadBalancer; absent: none, nothing allocates it"},
	{"protocol", value[sources.Port]{Word, protocols, readProtocol},
		`"TCP"`, "what is balanced"},
}

var protocols = []string{"TCP", "UDP", "SCTP"}

func readProtocol(d *decoder, n node, p *sources.Port) {
	var name string
	before := len(d.problems)
	word(d, n, &name, protocols...)
	if len(d.problems) == before {
		p.Protocol, _ = sources.ParseProtocol(name)
	}
}

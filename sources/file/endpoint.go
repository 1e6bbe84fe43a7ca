package file

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// draftEndpoint is an endpoint as written, before the service's ports and defaults are applied.
type draftEndpoint struct {
	sources.Endpoint
	d              *decoder
	at             node
	ready, serving *bool
	limits         limits
	port           portGiven            // of the service's only port
	ports          map[string]portGiven // by port name
	host, srv      string               // a DNS name in the place of an address; at most one of them
	weighted       bool                 // a weight is given
}

func (e *draftEndpoint) named() bool { return e.host != "" || e.srv != "" }

type portGiven struct {
	at     node
	number uint16
}

func readEndpoints(s *draft, n node) error {
	d := s.d
	if length, _ := n.Len(); length > sources.MostEndpoints {
		return fmt.Errorf("has %d endpoints, and a service has at most %d", length, sources.MostEndpoints)
	}
	return d.list(n, `IP addresses, ADDRESS:PORT, NAME:PORT, or tables { address = "...", ... }`, func(n node) {
		s.endpoints = append(s.endpoints, draftEndpoint{d: d, at: n})
		e := &s.endpoints[len(s.endpoints)-1]
		e.Weight = sources.DefaultWeight
		before := len(d.problems)
		if n.IsTable() {
			table(d, n, endpointFields(), e)
			e.weighted = n.Has("weight")
			if why := e.incomplete(); why != "" && len(d.problems) == before {
				d.refuse(n, "an endpoint %s", why)
			}
		} else if err := e.read(n); err != nil {
			d.refuseValue(n, err)
		}
		if len(d.problems) > before {
			s.endpoints = s.endpoints[:len(s.endpoints)-1]
		}
	})
}

// incomplete says why an endpoint is not one address, name or SRV record.
func (e *draftEndpoint) incomplete() string {
	switch {
	case e.host != "" && e.srv != "" || e.named() && e.Addr.IsValid():
		return "has several of address, name and srv: write one of them"
	case e.srv != "" && (e.port.number != 0 || e.ports != nil):
		return "has srv and a port: SRV records have the ports"
	case !e.named() && !e.Addr.IsValid():
		return "has no address"
	}
	return ""
}

// read reads ADDRESS, ADDRESS:PORT, NAME or NAME:PORT.
func (e *draftEndpoint) read(n node) (err error) {
	// The address first: nearly all endpoints are one, and the error of ParseAddrPort costs more than the address.
	if e.Addr, err = addr.Read(n); err == nil {
		return nil
	}
	text, _ := n.Text()
	at, mistake := netip.ParseAddrPort(text)
	if mistake != nil || at.Port() == 0 {
		return e.readName(n, text, err)
	}
	e.port = portGiven{n, at.Port()}
	e.Addr, err = fields.ParseAddr(at.Addr().String())
	return err
}

// readName reads NAME or NAME:PORT. It returns the error that the text is no address if it does not look like a name.
func (e *draftEndpoint) readName(n node, text string, noAddress error) (err error) {
	name, port, has := strings.Cut(text, ":")
	host, mistake := HostOf(name)
	if mistake != nil {
		return noAddress
	}
	if has {
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 {
			return fmt.Errorf("%q: the port must be 1 to 65535", text)
		}
		e.port = portGiven{n, uint16(number)}
	}
	e.host = host
	return nil
}

// HostOf reads a DNS name. No search domain is applied, so that it has a dot; an address is none.
func HostOf(text string) (string, error) {
	host := strings.ToLower(strings.TrimSuffix(text, "."))
	if err := sources.CheckHost(host); err != nil {
		return "", err
	}
	top := host[strings.LastIndexByte(host, '.')+1:]
	if len(top) == len(host) || strings.Trim(top, "0123456789") == "" {
		return "", fmt.Errorf("%q is not a whole DNS name, such as \"app.example.net\"", text)
	}
	return strings.Clone(host), nil
}

var host = fields.StringOf(func(s string) error {
	_, err := HostOf(s)
	return err
})

// readHost sets a DNS name.
func readHost(at func(*draftEndpoint) *string) func(*draftEndpoint, node) error {
	return func(e *draftEndpoint, n node) error {
		text, err := host.Read(n)
		if err == nil {
			*at(e), err = HostOf(text)
		}
		return err
	}
}

var endpointFields = sync.OnceValue(func() fields.Table[draftEndpoint] {
	return fields.Table[draftEndpoint]{
		fields.Define("address", fields.At(func(e *draftEndpoint) *netip.Addr { return &e.Addr }, addr),
			"", "required, unless it has name or srv"),
		fields.Define("name", fields.Custom(fields.KindString, readHost(func(e *draftEndpoint) *string { return &e.host })),
			"", "in the place of an address: a DNS name, whose addresses are endpoints, 64 at most; what is asked again when "+
				"the answer's TTL is over"),
		fields.Define("srv", fields.Custom(fields.KindString, readHost(func(e *draftEndpoint) *string { return &e.srv })),
			"", "in the place of an address: a DNS name with SRV records, which have port and weight (0 is 1, and weight here "+
				"replaces all); targets without the best priority are backups"),
		fields.Define("port", portNumber(readEndpointPort),
			"", "where it serves the service's only port; absent: at its targetPort"),
		fields.Define("ports", fields.Custom(fields.KindTable, readEndpointPorts),
			"", "PORTNAME = port, for the service ports that it serves elsewhere than at their targetPort"),
		fields.Define("weight", fields.At(func(e *draftEndpoint) *uint32 { return &e.Weight }, fields.Weight),
			"1", "its part of the connections under a scheduler that heeds weights, 0 to 65535; 0 drains it"),
		fields.Define("ready", fields.AtPointer(func(e *draftEndpoint) **bool { return &e.ready }, fields.Bool),
			"true", "false: no new connections"),
		fields.Define("serving", fields.AtPointer(func(e *draftEndpoint) **bool { return &e.serving }, fields.Bool),
			"", "with terminating: it may still be used if no other can; absent: as ready"),
		fields.Define("terminating", fields.At(func(e *draftEndpoint) *bool { return &e.Terminating }, fields.Bool),
			"false", "it is shutting down"),
		fields.Define("nodeName", fields.At(func(e *draftEndpoint) *string { return &e.NodeName }, nodeName),
			"", "the node it is on, for policy Local; absent: this node if its address is in node.localCIDRs of svcproxy.toml"),
		fields.Define("zone", fields.At(func(e *draftEndpoint) *string { return &e.Zone }, fields.String),
			"", "the zone it is in, for trafficDistribution"),
		fields.Define("backup", fields.At(func(e *draftEndpoint) *bool { return &e.Backup }, fields.Bool),
			"false", "use it only while no other endpoint is up"),
		fields.Define("maxConnections", fields.AtPointer(func(e *draftEndpoint) **uint32 {
			return &e.limits.most
		}, connections),
			"", "modes ipvs and userspace: how many connections it may have at each port before it gets no new ones, those "+
				"counted that closed within the last two minutes; "+
				"0: no limit; clients with sessionAffinity stay; absent: the service's"),
		fields.Define("resumeConnections", fields.AtPointer(func(e *draftEndpoint) **uint32 {
			return &e.limits.resume
		}, connections),
			"", "at maxConnections: it gets new connections again below this number; absent: below three quarters of "+
				"maxConnections"),
		fields.Define("healthCheck", fields.Value[draftEndpoint]{Kind: fields.KindWord, Words: []string{checkOff},
			Set: readEndpointCheck},
			"", "off: the service's health check leaves it out, and it counts as up"),
	}
})

func readEndpointCheck(e *draftEndpoint, n node) error {
	switch text, ok := n.Text(); {
	case !ok:
		return n.Mistyped(`"off"`)
	case text != checkOff:
		return fmt.Errorf(`%q: an endpoint can only have "off": the check itself is the service's`, text)
	}
	e.Unchecked = true
	return nil
}

// nodeName is trimmed and in lower case, as is the node's own name that it is compared with.
var nodeName = fields.Type[string]{
	Kind: fields.KindString,
	Read: func(n node) (string, error) {
		name, err := fields.String.Read(n)
		return strings.ToLower(strings.TrimSpace(name)), err
	},
}

func readEndpointPort(e *draftEndpoint, n node) (err error) {
	e.port.at = n
	e.port.number, err = fields.Port.Read(n)
	return err
}

func readEndpointPorts(e *draftEndpoint, n node) error {
	if !n.IsTable() {
		return n.Mistyped("a table { PORTNAME = 9080 }")
	}
	e.ports = make(map[string]portGiven, n.Size())
	for _, name := range n.Keys() {
		c, _ := n.Under(name)
		number, err := fields.Port.Read(c)
		if err != nil {
			e.d.refuseValue(c, err)
		}
		e.ports[name] = portGiven{c, number}
	}
	return nil
}

// sortEndpoints sorts by address. Files mostly have that order already, and to compare drafts is to copy them.
func (s *draft) sortEndpoints() {
	for i := 1; i < len(s.endpoints); i++ {
		if s.endpoints[i].Addr.Less(s.endpoints[i-1].Addr) {
			slices.SortStableFunc(s.endpoints, func(a, b draftEndpoint) int { return a.Addr.Compare(b.Addr) })
			return
		}
	}
}

// resolve makes the service's endpoints from the drafts, in order of address.
func (d *decoder) resolve(s *draft) {
	d.names(s)
	if len(s.endpoints) == 0 {
		return
	}
	s.sortEndpoints()
	s.Endpoints = make([]sources.Endpoint, len(s.endpoints))
	usual := endpointPorts(nil, s.Ports)   // endpoints without ports of their own share one list
	var taken map[sources.EndpointPort]int // of one address: the endpoint that has the port
	for i := range s.endpoints {
		given := &s.endpoints[i]
		e := &s.Endpoints[i]
		*e = d.endpoint(s, given, usual)
		again := i > 0 && s.Endpoints[i-1].Addr == e.Addr
		if !again && (i == len(s.endpoints)-1 || s.endpoints[i+1].Addr != e.Addr) {
			continue // the only one of its address
		}
		if !again {
			taken = map[sources.EndpointPort]int{}
		}
		if first, twice := take(taken, e.Ports, i); twice && !d.full() {
			d.refuse(given.at, "endpoint %s is given twice, first at line %d", e.Addr, d.line(s.endpoints[first].at))
		}
	}
}

// endpoint returns the endpoint of a draft. usual are the ports of one that gives none.
func (d *decoder) endpoint(s *draft, given *draftEndpoint, usual []sources.EndpointPort) sources.Endpoint {
	e := given.Endpoint
	e.Ready = given.ready == nil || *given.ready
	e.Serving = e.Ready
	if given.serving != nil {
		e.Serving = *given.serving
	}
	e.MaxConnections, e.ResumeConnections = given.limits.or(s.limits)
	d.onlyPort(s, given)
	if e.Ports = usual; given.ports != nil {
		e.Ports = endpointPorts(given.ports, s.Ports)
		d.portNames(given, s.Ports)
	}
	e.Hints = hints(&e, s.TrafficDistribution)
	return e
}

// names takes the drafts that are DNS names from those of endpoints.
func (d *decoder) names(s *draft) {
	if !slices.ContainsFunc(s.endpoints, func(e draftEndpoint) bool { return e.named() }) {
		return
	}
	usual, rest := endpointPorts(nil, s.Ports), s.endpoints[:0]
	for i := range s.endpoints {
		given := s.endpoints[i]
		if !given.named() {
			rest = append(rest, given)
			continue
		}
		if given.srv != "" && (len(s.Ports) > 1 || s.FWMark != 0) {
			d.refuse(given.at, "srv gives the port of a service's only port, and this one has others: give it one port, "+
				"or write name")
		}
		n := sources.Name{Host: given.host + given.srv, SRV: given.srv != "", Weighted: given.weighted,
			Endpoint: d.endpoint(s, &given, usual)}
		if slices.ContainsFunc(s.Names, func(o sources.Name) bool {
			return o.Host == n.Host && o.SRV == n.SRV && slices.Equal(o.Ports, n.Ports)
		}) {
			d.refuse(given.at, "%s is given twice", n.String())
		}
		s.Names = append(s.Names, n)
	}
	s.endpoints = rest
}

// onlyPort has an endpoint's own port stand for the service's only one.
func (d *decoder) onlyPort(s *draft, e *draftEndpoint) {
	switch {
	case e.port.number == 0 || d.full():
	case e.ports != nil:
		d.refuse(e.port.at, "port and ports are both given: write one of them")
	case len(s.Ports) > 1:
		d.refuse(e.port.at, "an endpoint's port is that of the service's only port, and it has %d: write ports = { %s = %d }",
			len(s.Ports), fields.KeyText(s.Ports[0].Name), e.port.number)
	case len(s.Ports) == 1:
		e.ports = map[string]portGiven{s.Ports[0].Name: e.port}
	}
}

// take adds an endpoint's ports to those taken, and returns the earlier endpoint that has one of them, if there is
// one. Of a service without ports, all endpoints of one address are the same.
func take(taken map[sources.EndpointPort]int, ports []sources.EndpointPort, i int) (first int, twice bool) {
	if len(ports) == 0 {
		ports = []sources.EndpointPort{{}}
	}
	for _, p := range ports {
		if at, had := taken[p]; !had {
			taken[p] = i
		} else if !twice || at < first {
			first, twice = at, true
		}
	}
	return first, twice
}

// endpointPorts returns where an endpoint serves each of the service's ports: at its own port of that name, else
// at the targetPort.
func endpointPorts(own map[string]portGiven, ports []sources.Port) []sources.EndpointPort {
	resolved := make([]sources.EndpointPort, 0, len(ports))
	for _, p := range ports {
		number := p.TargetPort
		if given, ok := own[p.Name]; ok {
			number = given.number
		}
		resolved = append(resolved, sources.EndpointPort{Name: p.Name, Protocol: p.Protocol, Port: number})
	}
	return resolved
}

// portNames refuses ports of an endpoint that its service does not have. Validate reports a service without ports.
func (d *decoder) portNames(e *draftEndpoint, known []sources.Port) {
	if len(known) == 0 || d.full() {
		return
	}
	names := make([]string, len(known))
	for i := range known {
		names[i] = known[i].Name
	}
	slices.Sort(names)
	for name, own := range e.ports {
		if _, found := slices.BinarySearch(names, name); found {
			continue
		}
		if meant := fields.Near(name, names); meant != "" {
			d.refuse(own.at, "the service has no port named %q, did you mean %q?", name, meant)
		} else {
			d.refuse(own.at, "the service has no port named %q: the keys of an endpoint's ports are the names of its service's",
				name)
		}
	}
}

// hints returns what the endpoint slice controller of an API server would write for a distribution: the zone that
// should use the endpoint, and with PreferSameNode the node.
func hints(e *sources.Endpoint, want sources.TrafficDistribution) *sources.Hints {
	var nodes, zones []string
	if want == sources.PreferSameNode && e.NodeName != "" {
		nodes = []string{e.NodeName}
	}
	if want != sources.DistributeEvenly && e.Zone != "" {
		zones = []string{e.Zone}
	}
	return sources.HintsOf(nodes, zones)
}

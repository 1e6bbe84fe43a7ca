package random

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/mode/iptables"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/proxy/mode/userspace"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

// wordTables is how many random tables are written in both sets of words.
const wordTables = 200

// TestWordsAgree: vips, port and backends make the same State as Kubernetes' words, byte for byte and in every mode. It
// needs no kernel.
func TestWordsAgree(t *testing.T) {
	d := newDraw(19)
	node := kernel.Node{Name: nodeName, Zone: "a", Primary4: netip.MustParseAddr("192.0.2.1"), Addrs: []kernel.NodeAddr{
		{Prefix: netip.MustParsePrefix("192.0.2.1/24"), Link: "eth0"}, {Prefix: netip.MustParsePrefix("2001:db8::1/64"), Link: "eth0"},
		{Prefix: netip.MustParsePrefix("127.0.0.1/8"), Link: "lo"},
	}}
	var table sources.Table
	edge, ports, virtuals := 0, 0, 0
	for i := range wordTables {
		table = d.next(table)
		config := d.config()
		short := d.shortNames(table)
		inEdge, inKubernetes := written(short, file.EdgeWords), written(short, file.KubernetesWords)
		edge += strings.Count(inEdge, "\nbackends = ")
		ports += strings.Count(inEdge, "\nport = ") + strings.Count(inEdge, "\nports = [80")
		a, b := decoded(t, inEdge), decoded(t, inKubernetes)
		for _, m := range []mode.Mode{new(ipvs.Mode), new(iptables.Mode), userspace.Mode{}} {
			x := m.State(frontend.List(a, node, config.Frontends), config)
			y := m.State(frontend.List(b, node, config.Frontends), config)
			virtuals += len(x.Virtuals)
			if x.String() != y.String() {
				t.Fatalf("table %d, mode %s: the states differ.\n%s\n%s\nof\n%s\n%s", i, m.Name(), x, y, inEdge, inKubernetes)
			}
		}
	}
	if edge < wordTables || ports < wordTables || virtuals < 10*wordTables {
		t.Errorf("only %d services with backends, %d with ports as numbers and %d virtual servers in %d tables", edge, ports, virtuals, wordTables)
	}
}

// shortNames gives half of the services ports that the words of the edge write as numbers: with the names that a file
// gives them itself, and the same on the endpoints.
func (d draw) shortNames(table sources.Table) sources.Table {
	services := table.Services.Slice()
	for i := range services {
		s := &services[i]
		if d.chance(2) || twice(s.Ports) {
			continue
		}
		s.Ports, s.Endpoints = slices.Clone(s.Ports), slices.Clone(s.Endpoints)
		for j := range s.Ports {
			p := &s.Ports[j]
			name := ""
			if len(s.Ports) > 1 {
				name = fmt.Sprint(p.Port) + map[sources.Protocol]string{sources.UDP: "-udp", sources.SCTP: "-sctp"}[p.Protocol]
			}
			for k := range s.Endpoints {
				s.Endpoints[k].Ports = renamed(s.Endpoints[k].Ports, *p, name)
			}
			p.Name, p.TargetPort = name, p.Port
		}
	}
	return sources.Table{Services: sources.ServicesOf(services...)}
}

// twice reports whether ports would have the same name.
func twice(ports []sources.Port) bool {
	seen := map[sources.Port]bool{}
	for _, p := range ports {
		seen[sources.Port{Port: p.Port, Protocol: p.Protocol}] = true
	}
	return len(seen) < len(ports)
}

// renamed are an endpoint's ports with a new name for one of its service.
func renamed(ports []sources.EndpointPort, of sources.Port, name string) []sources.EndpointPort {
	ports = slices.Clone(ports)
	for i, p := range ports {
		if p.Name == of.Name && p.Protocol == of.Protocol {
			ports[i].Name = name
		}
	}
	return ports
}

// written is a table as a services file. An address can be an endpoint twice only in one of the two sets of words.
func written(table sources.Table, words file.Words) string {
	var b strings.Builder
	for _, s := range table.Services.Slice() {
		seen := map[netip.Addr]bool{}
		s.Endpoints = slices.DeleteFunc(slices.Clone(s.Endpoints), func(e sources.Endpoint) bool {
			again := seen[e.Addr]
			seen[e.Addr] = true
			return again
		})
		b.WriteString(file.Encode(&s, words) + "\n")
	}
	return b.String()
}

// decoded is the table of a services file, after what Merge leaves out.
func decoded(t *testing.T, text string) sources.Table {
	t.Helper()
	table, _, problems := file.Decode("services.toml", []byte(text))
	if len(problems) > 0 {
		t.Fatalf("%v\nin\n%s", problems, text)
	}
	table, _ = sources.Merge(sources.HostFacts{}, table)
	return table
}

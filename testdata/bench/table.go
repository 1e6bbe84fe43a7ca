package main

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/sources"
)

// table is services of one port each, with a cluster IP and endpoints of the family,
// no two the same. Endpoints have no node name, so that each has an entry for hairpins.
func table(sz size, f kernel.Family) sources.Table {
	vip, endpoint := netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("10.128.0.1")
	if f == kernel.IPv6 {
		vip, endpoint = netip.MustParseAddr("fd00:96::1"), netip.MustParseAddr("fd00:128::1")
	}
	all := make([]sources.Service, 0, sz.services)
	for i := range sz.services {
		s := sources.Service{
			Namespace: sources.DefaultNamespace, Name: fmt.Sprintf("s%05d", i), Type: sources.ClusterIP,
			ClusterIPs: []netip.Addr{vip},
			Ports:      []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 8080}},
		}
		for range sz.endpoints {
			s.Endpoints = append(s.Endpoints, sources.Endpoint{
				Addr: endpoint, Weight: 1, Ready: true, Serving: true,
				Ports: []sources.EndpointPort{{Protocol: sources.TCP, Port: 8080}},
			})
			endpoint = endpoint.Next()
		}
		all = append(all, s)
		vip = vip.Next()
	}
	return sources.Table{Services: sources.ServicesOf(all...)}
}

// weighed is the table with all endpoints of every nth service at a weight; the
// given table stays as it is.
func weighed(t sources.Table, every int, weight uint32) sources.Table {
	t.Services = sources.ServicesOf(t.Services.Slice()...)
	for i := 0; i < t.Services.Len(); i += every {
		s := t.Services.At(i)
		s.Endpoints = slices.Clone(s.Endpoints)
		for j := range s.Endpoints {
			s.Endpoints[j].Weight = weight
		}
	}
	return t
}

// oneWeighed is the table with one endpoint in its middle at a weight.
func oneWeighed(t sources.Table, weight uint32) sources.Table {
	t.Services = sources.ServicesOf(t.Services.Slice()...)
	s := t.Services.At(t.Services.Len() / 2)
	s.Endpoints = slices.Clone(s.Endpoints)
	s.Endpoints[len(s.Endpoints)/2].Weight = weight
	return t
}

// text is a table as services.toml.
func text(t sources.Table) string {
	var b strings.Builder
	for _, s := range t.Services.All() {
		fmt.Fprintf(&b, "[services.%s]\nclusterIP = %q\nports = [{ port = 80, targetPort = 8080 }]\nendpoints = [\n", s.Name, s.ClusterIPs[0])
		for _, e := range s.Endpoints {
			if e.Weight == sources.DefaultWeight {
				fmt.Fprintf(&b, "  %q,\n", e.Addr)
			} else {
				fmt.Fprintf(&b, "  { address = %q, weight = %d },\n", e.Addr, e.Weight)
			}
		}
		b.WriteString("]\n\n")
	}
	return b.String()
}

// variedText is the table of text as people write it: no two neighbours have the same keys, spelling and comments.
func variedText(t sources.Table) string {
	var b strings.Builder
	r := rand.New(rand.NewPCG(1, 2))
	maybe := func(format string, args ...any) {
		if r.IntN(3) == 0 {
			fmt.Fprintf(&b, format, args...)
		}
	}
	for i, s := range t.Services.All() {
		fmt.Fprintf(&b, "[services.%s]\n", s.Name)
		maybe("# of team %d\n", i%7)
		fmt.Fprintf(&b, "clusterIP = %q\n", s.ClusterIPs[0])
		fmt.Fprintln(&b, []string{"ports = [{ port = 80, targetPort = 8080 }]", "ports = [{ targetPort = 8080, port = 80, protocol = \"TCP\" }]", "ports = [{ name = \"web\", port = 80, targetPort = 8080 }]"}[r.IntN(3)])
		maybe("scheduler = \"wrr\"\n")
		maybe("sessionAffinity = \"None\"\n")
		maybe("externalTrafficPolicy = \"Cluster\"\n")
		maybe("internalTrafficPolicy = \"Cluster\" # all nodes\n")
		b.WriteString("endpoints = [\n")
		for j, e := range s.Endpoints {
			fmt.Fprintf(&b, "  { address = %q", e.Addr)
			if given := r.IntN(3) == 0; given || e.Weight != sources.DefaultWeight { // always drawn, or another weight would change all that follows
				fmt.Fprintf(&b, ", weight = %d", e.Weight)
			}
			maybe(", zone = \"z%d\"", j)
			b.WriteString(" },")
			maybe(" # rack %d", j)
			b.WriteString("\n")
		}
		b.WriteString("]\n\n")
	}
	return b.String()
}

// ruled is svcproxy's default configuration, except for the scheduler, which heeds
// weights.
func ruled() mode.Config {
	c := config.Default().ForMode()
	c.Frontends.IPv6, c.Frontends.Scheduler = true, "wrr"
	return c
}

// wanted is what the rules make of a table.
func wanted(t sources.Table, n kernel.Node) kernel.State {
	return ipvs.State(frontend.List(t, n, ruled().Frontends), ruled())
}

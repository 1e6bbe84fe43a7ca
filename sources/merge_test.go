package sources_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/sources"
)

// The messages of rules are tested by sources/file/testdata/scenario. These tests are about all tables.

// tables draws a table with few addresses, so that its services are in conflict.
func tables(source string) *rapid.Generator[sources.Table] {
	return rapid.Custom(func(t *rapid.T) sources.Table {
		var table sources.Table
		for i, name := range rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 0, 6, rapid.ID[int]).Draw(t, "names") {
			s := sources.Service{
				Namespace:       sources.DefaultNamespace,
				Name:            fmt.Sprintf("s%d", name),
				Type:            rapid.SampledFrom([]sources.Type{sources.ClusterIP, sources.LoadBalancer, sources.Headless}).Draw(t, "type"),
				ClusterIPs:      []netip.Addr{addr(rapid.IntRange(0, 5).Draw(t, "vip"))},
				AffinityTimeout: sources.DefaultAffinityTimeout,
				Origin:          sources.Origin{Source: source, File: source, Line: i + 1},
			}
			port := sources.Port{Protocol: sources.TCP, Port: rapid.Uint16Range(80, 83).Draw(t, "port"), TargetPort: 8080}
			if s.Forward = rapid.SampledFrom([]sources.Forward{"", "", sources.Masquerade, sources.IPIP}).Draw(t, "forward"); s.Forward == sources.IPIP {
				port.TargetPort = port.Port
			}
			if s.Type == sources.LoadBalancer {
				port.NodePort = rapid.Uint16Range(0, 3).Draw(t, "node port")
				s.ExternalTrafficPolicy = sources.Local
				s.HealthCheckNodePort = rapid.Uint16Range(0, 3).Draw(t, "health check")
			}
			s.Ports = []sources.Port{port}
			s.Endpoints = []sources.Endpoint{{Addr: addr(rapid.IntRange(4, 9).Draw(t, "endpoint"))}}
			table.Services = table.Services.Append(s)
		}
		table.Sort()
		return table
	})
}

func addr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}) }

// vip is where a service with port 80 is reached at addr(i).
func vip(i int) sources.Address {
	return sources.Address{Kind: sources.KindClusterIP, Addr: addr(i), Port: 80, Protocol: sources.TCP}
}

func TestMergeHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, host := tables("a").Draw(t, "a"), tables("b").Draw(t, "b"), hosts().Draw(t, "host")
		before := fmt.Sprint(a, b)
		merged, problems := sources.Merge(host, a, b)
		if fmt.Sprint(a, b) != before {
			t.Fatal("arguments were changed")
		}

		// Every service is in the merged table, and reported if anything of it is withheld, or it is reported.
		for _, s := range slices.Concat(a.Services.Slice(), b.Services.Slice()) {
			got, ok := merged.Lookup(s.Namespace, s.Name)
			withheld := got.Withheld
			got.Withheld = nil
			in := ok && reflect.DeepEqual(got, s)
			reported := slices.ContainsFunc(problems, func(p sources.Problem) bool {
				return p.Service == s.FullName() && p.Origin == s.Origin
			})
			if in && reported != (len(withheld) > 0) || !in && !reported {
				t.Errorf("%s of %s: in %t, withheld %v, reported %t", s.FullName(), s.Origin, in, withheld, reported)
			}
		}
		apart(t, merged, host)

		// Merging it again changes nothing, and so does what cannot win anything: the table itself.
		if again, _ := sources.Merge(host, merged); !reflect.DeepEqual(services(again), services(merged)) {
			t.Errorf("again: %v", again)
		}
		if both, _ := sources.Merge(host, merged, merged); !reflect.DeepEqual(services(both), services(merged)) {
			t.Errorf("with itself: %v", both)
		}

		// The earlier table keeps what it has alone.
		alone, _ := sources.Merge(host, a)
		for _, s := range alone.Services.All() {
			if got, ok := merged.Lookup(s.Namespace, s.Name); !ok || len(got.Withheld) > len(s.Withheld) {
				t.Errorf("%s lost %v to a later table", s.FullName(), got.Withheld)
			}
		}
	})
}

func services(t sources.Table) []sources.Service { return t.Services.Slice() }

func hosts() *rapid.Generator[sources.HostFacts] {
	return rapid.Custom(func(t *rapid.T) (host sources.HostFacts) {
		for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 0, 2, rapid.ID[int]).Draw(t, "own addresses") {
			host.Addrs = append(host.Addrs, addr(i))
		}
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, 9), 0, 1).Draw(t, "gateway") {
			host.Gateways = append(host.Gateways, addr(i))
		}
		for _, port := range rapid.SliceOfN(rapid.Uint16Range(80, 83), 0, 2).Draw(t, "listeners") {
			host.Listeners = append(host.Listeners, listener(t, port))
		}
		for _, port := range rapid.SliceOfN(rapid.Uint16Range(82, 83), 0, 1).Draw(t, "own ports") {
			host.Own = append(host.Own, listener(t, port))
		}
		return host
	})
}

func listener(t *rapid.T, port uint16) sources.Listener {
	at := rapid.SampledFrom([]netip.Addr{netip.IPv4Unspecified(), addr(1)}).Draw(t, "at")
	return sources.Listener{Addr: at, Port: port, Protocol: sources.TCP, Program: "program"}
}

// apart checks what is not withheld: no claim is that of two services, no bound address is an endpoint or the gateway.
func apart(t *rapid.T, table sources.Table, host sources.HostFacts) {
	ports, bound, endpoints := map[string]string{}, map[netip.Addr]bool{}, map[netip.Addr]bool{}
	for i := range table.Services.Len() {
		s := table.Services.At(i)
		if !s.Type.Serves() {
			continue
		}
		take := func(what string) {
			if other := ports[what]; other != "" && other != s.FullName() {
				t.Errorf("%s is both %s's and %s's", what, other, s.FullName())
			}
			ports[what] = s.FullName()
		}
		for a := range s.Addresses {
			if s.Withholds(a) {
				continue
			}
			take(fmt.Sprint(a.Addr, a.Port, a.Protocol))
			if vip := a.Addr; vip.IsValid() {
				own := slices.Contains(host.Addrs, vip)
				bound[vip] = bound[vip] || !own && (len(host.Addrs) > 0 || !slices.Contains(s.ExternalIPs, vip))
				if slices.Contains(host.Gateways, vip) && !own {
					t.Errorf("%s has the gateway %s", s.FullName(), vip)
				}
			}
		}
		for _, e := range s.Endpoints {
			endpoints[e.Addr] = endpoints[e.Addr] || !s.WithholdsEndpoint(e.Addr)
		}
	}
	for a := range bound {
		if bound[a] && endpoints[a] {
			t.Errorf("%s is bound and an endpoint", a)
		}
	}
}

func TestValidateIsPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := tables("a").Draw(t, "a")
		before := fmt.Sprint(table)
		host := sources.HostFacts{NodeName: "n", ClusterIPsKeepClients: true}
		w1, e1 := sources.Doubts(host, table), sources.Validate(table)
		w2, e2 := sources.Doubts(host, table), sources.Validate(table)
		if fmt.Sprint(table) != before || !reflect.DeepEqual(w1, w2) || !reflect.DeepEqual(e1, e2) {
			t.Error("not the same twice")
		}
	})
}

func TestProtocol(t *testing.T) {
	for _, p := range []sources.Protocol{sources.TCP, sources.UDP, sources.SCTP} {
		if got, err := sources.ParseProtocol(p.String()); got != p || err != nil {
			t.Errorf("%s: %s, %v", p, got, err)
		}
	}
	if _, err := sources.ParseProtocol("tcp"); err == nil {
		t.Error("tcp is TCP")
	}
}

func TestProblemText(t *testing.T) {
	p := sources.Problem{
		Service: "default/web",
		Origin:  sources.Origin{Source: "file", File: "s.toml", Line: 3},
		Message: "no ports",
	}
	for want, got := range map[string]string{
		"s.toml:3: web: no ports":              p.Error(),
		"apiserver: prod/web: no ports":        sources.Problem{Service: "prod/web", Origin: sources.Origin{Source: "apiserver"}, Message: "no ports"}.Error(),
		"s.toml: is not there":                 sources.Problem{Origin: sources.Origin{Source: "file", File: "s.toml"}, Message: "is not there"}.Error(),
		"s.toml:3: web: no ports (and 1 more)": (&sources.RejectedError{Problems: []sources.Problem{p, p}}).Error(),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// many returns n services with 10 endpoints each.
func many(n int) sources.Table {
	var table sources.Table
	for i := range n {
		s := sources.Service{
			Namespace: "default", Name: fmt.Sprintf("s%05d", i), Type: sources.ClusterIP,
			ClusterIPs:      []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})},
			Ports:           []sources.Port{{Name: "http", Protocol: sources.TCP, Port: 80, TargetPort: 8080}},
			AffinityTimeout: 3 * time.Hour,
		}
		for j := range 10 {
			s.Endpoints = append(s.Endpoints, sources.Endpoint{
				Addr:   netip.AddrFrom4([4]byte{10, byte(j), byte(i >> 8), byte(i)}),
				Ports:  []sources.EndpointPort{{Name: "http", Protocol: sources.TCP, Port: 8080}},
				Weight: 1, Ready: true, Serving: true,
			})
		}
		table.Services = table.Services.Append(s)
	}
	return table
}

func BenchmarkValidate(b *testing.B) {
	table := many(1000)
	for b.Loop() {
		if errs := sources.Validate(table); len(errs) > 0 {
			b.Fatal(errs[0])
		}
	}
}

func BenchmarkMerge(b *testing.B) {
	table := many(1000)
	for b.Loop() {
		if _, problems := sources.Merge(sources.HostFacts{}, sources.Table{}, table); len(problems) > 0 {
			b.Fatal(problems[0])
		}
	}
}

// Merge leaves out nothing of a table in which Validate finds no error. So Uncontested may say so beforehand, of these
// services and no others.
func TestUncontested(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, host := tables("a").Draw(t, "table"), sources.HostFacts{}
		if rapid.Bool().Draw(t, "addresses known") {
			host.Addrs = []netip.Addr{addr(rapid.IntRange(0, 9).Draw(t, "own address"))}
		}
		refused := sources.Validate(table)
		merged, problems := sources.Merge(sources.HostFacts{}, table)
		if len(refused) == 0 && (len(problems) > 0 || !reflect.DeepEqual(merged, table.Uncontested()) && table.Services.Len() > 0) {
			t.Fatalf("Validate finds nothing, Merge %v: %+v", problems, merged)
		}
		known := sources.Table{}.Uncontested()
		known.Services = table.Services
		if again, found := sources.Merge(sources.HostFacts{}, known); !reflect.DeepEqual(again, merged) || !reflect.DeepEqual(found, problems) {
			t.Fatalf("of other services than those found apart: %v, want %v", found, problems)
		}
	})
}

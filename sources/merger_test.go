package sources_test

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/sources"
)

// A service keeps what it had for as long as it asks for it, whatever else changes. A Merger that decides only what may
// have changed returns what one does that decides everything.
func TestMergerKeepsIncumbents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m, thorough sources.Merger
		var before sources.Table
		now := []sources.Table{tables("a").Draw(t, "a"), {}}
		if rapid.Bool().Draw(t, "both") {
			now[1] = tables("b").Draw(t, "b")
		}
		host := hosts().Draw(t, "host")
		for round := range rapid.IntRange(1, 6).Draw(t, "rounds") {
			merged := m.Merge(host, nil, now...)
			got, problems := merged.Table, merged.Problems
			apart(t, got, host)
			keep(t, before, got)
			if d := sources.Compare(before, sources.Table{Services: got.Services}); !reflect.DeepEqual(merged.Delta, d) {
				t.Fatalf("delta %+v, want %+v", merged.Delta, d)
			}
			longer := append(slices.Clone(now), make([]sources.Table, round%2)...) // another number of tables is never skipped
			whole := thorough.Merge(host, nil, longer...)
			want, wantProblems := whole.Table, whole.Problems
			if !reflect.DeepEqual(services(got), services(want)) || !reflect.DeepEqual(problems, wantProblems) {
				t.Fatalf("got  %+v, %v\nwant %+v, %v", got, problems, want, wantProblems)
			}
			before = got
			i := rapid.IntRange(0, 1).Draw(t, "table")
			if rapid.IntRange(0, 3).Draw(t, "what") == 0 {
				now[i] = tables([]string{"a", "b"}[i]).Draw(t, "other")
				continue
			}
			now[i] = after(t, now[i], other(t, now[i]))
		}
	})
}

// after tells a table what differs from the one before, as a source may.
func after(t *rapid.T, before, now sources.Table) sources.Table {
	if rapid.Bool().Draw(t, "known") {
		return now.After(before, sources.Compare(before, now))
	}
	return now
}

// What a table remembers of an earlier one is what Compare finds, and it is not taken for what differs from others.
func TestAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := []sources.Table{tables("a").Draw(t, "table")}
		for range rapid.IntRange(1, 6).Draw(t, "rounds") {
			last := all[len(all)-1]
			next := other(t, last)
			if rapid.IntRange(0, 3).Draw(t, "what") == 0 {
				next = tables("a").Draw(t, "other")
			}
			all = append(all, after(t, last, next))
		}
		for _, a := range all {
			for _, b := range all {
				if got, want := sources.Compare(a, b), sources.Compare(a, sources.Table{Services: b.Services}); !reflect.DeepEqual(got, want) {
					t.Fatalf("got %+v, want %+v", got, want)
				}
				b.Services = sources.ServicesOf(b.Services.Slice()...)
				if b.Services.Len() > 0 {
					b.Services.At(0).Scheduler = "other"
				}
				if got, want := sources.Compare(a, b), sources.Compare(a, sources.Table{Services: b.Services}); !reflect.DeepEqual(got, want) {
					t.Fatalf("changed: got %+v, want %+v", got, want)
				}
			}
		}
	})
}

// keep checks that services kept the addresses that they still ask for.
func keep(t *rapid.T, before, now sources.Table) {
	for i := range before.Services.Len() {
		was := before.Services.At(i)
		is, ok := now.Lookup(was.Namespace, was.Name)
		if !ok || is.Origin.File != was.Origin.File || !was.Type.Serves() || !is.Type.Serves() {
			continue
		}
		self := func(vip netip.Addr) bool {
			return slices.ContainsFunc(is.Endpoints, func(e sources.Endpoint) bool { return e.Addr == vip })
		}
		had := map[sources.Claim]bool{}
		for a := range was.Addresses {
			had[a.Claim()] = !was.Withholds(a)
		}
		for a := range is.Addresses {
			if had[a.Claim()] && is.Withholds(a) && !self(a.Addr) {
				t.Errorf("%s lost %s, which it had: %v", is.FullName(), a.Claim(), is.Withheld)
			}
		}
	}
}

// A new service does not get what another service has, even if its file comes first, until that one no longer asks for
// it. That also holds after a restart, and if the new service was added while svcproxy did not run.
func TestIncumbentOverNewcomer(t *testing.T) {
	of := func(file, name string, vips ...int) sources.Table {
		s := sources.Service{
			Namespace: "default", Name: name, Type: sources.ClusterIP,
			Ports: []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 80}}, Origin: sources.Origin{Source: "file", File: file, Line: 1},
		}
		for _, i := range vips {
			s.ExternalIPs = append(s.ExternalIPs, addr(i))
		}
		return sources.Table{Services: sources.ServicesOf(s)}
	}
	at := func(t *testing.T, merged sources.Table, i int) (names []string) {
		t.Helper()
		for _, s := range merged.Services.All() {
			if s.HasVIP(addr(i)) && !s.Withholds(vip(i)) {
				names = append(names, s.Name)
			}
		}
		return names
	}
	newcomer, incumbent := of("a.toml", "new", 1, 2), of("b.toml", "old", 1)

	var m sources.Merger
	m.Merge(sources.HostFacts{}, nil, incumbent)
	alone := m.Incumbents()
	merged, problems := split(m.Merge(sources.HostFacts{}, nil, sources.Join(newcomer, incumbent)))
	if got := at(t, merged, 1); !slices.Equal(got, []string{"old"}) {
		t.Errorf("served by %v", got)
	}
	if got := at(t, merged, 2); !slices.Equal(got, []string{"new"}) {
		t.Errorf("what no other service asks for is served by %v", got)
	}
	want := "a.toml:1: new: left out in part: 10.0.0.1:80/TCP is taken by old (b.toml:1)"
	if len(problems) != 1 || problems[0].Error() != want {
		t.Errorf("%v, want %s", problems, want)
	}
	for what, record := range map[string]sources.Incumbents{"a restart": m.Incumbents(), "a stop, in which the newcomer came": alone} {
		again := sources.Merger{Before: written(t, record)}
		for range 2 {
			merged, _ := split(again.Merge(sources.HostFacts{}, nil, sources.Join(newcomer, incumbent)))
			if got := at(t, merged, 1); !slices.Equal(got, []string{"old"}) {
				t.Errorf("after %s: served by %v", what, got)
			}
		}
	}
	// One that takes another's by an edit while both are served is not the first either.
	m = sources.Merger{}
	m.Merge(sources.HostFacts{}, nil, sources.Join(of("a.toml", "new", 2), incumbent))
	m.Merge(sources.HostFacts{}, nil, sources.Join(newcomer, incumbent))
	again := sources.Merger{Before: written(t, m.Incumbents())}
	if merged, _ := split(again.Merge(sources.HostFacts{}, nil, sources.Join(newcomer, incumbent))); !slices.Equal(at(t, merged, 1), []string{"old"}) {
		t.Errorf("after an edit and a restart: served by %v", at(t, merged, 1))
	}
	if merged, _ := split(m.Merge(sources.HostFacts{}, nil, newcomer)); !slices.Equal(at(t, merged, 1), []string{"new"}) {
		t.Errorf("with the incumbent gone: served by %v", at(t, merged, 1))
	}
	// A name is the incumbent's too.
	m = sources.Merger{}
	m.Merge(sources.HostFacts{}, nil, incumbent)
	merged, _ = split(m.Merge(sources.HostFacts{}, nil, sources.Join(of("a.toml", "old", 3), incumbent)))
	if s, _ := merged.Lookup("default", "old"); s.Origin.File != "b.toml" || merged.Services.Len() != 1 {
		t.Errorf("the name is had by %+v", merged.Services.Slice())
	}
}

// While a source has not delivered, services of other sources do not become incumbents in its place.
func TestHoldMakesNoIncumbents(t *testing.T) {
	service := func(source string) sources.Table {
		return sources.Table{Services: sources.ServicesOf(sources.Service{
			Namespace: "default", Name: source, Type: sources.ClusterIP, ClusterIPs: []netip.Addr{addr(1)},
			Ports: []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 80}}, Origin: sources.Origin{Source: source},
		})}
	}
	var m sources.Merger
	m.Merge(sources.HostFacts{}, nil, sources.Table{}, service("apiserver"))
	again := sources.Merger{Before: m.Incumbents()}
	again.Merge(sources.HostFacts{}, []string{"apiserver"}, service("file"), sources.Table{})
	merged, _ := split(again.Merge(sources.HostFacts{}, nil, service("file"), service("apiserver")))
	if s, _ := merged.Lookup("default", "file"); len(s.Withheld) != 1 {
		t.Errorf("%+v", merged.Services.Slice())
	}
}

// A tenant of an API server lists another service's cluster IP as an external IP. The other service keeps it, whatever
// their names.
func TestClusterIPOverExternalIP(t *testing.T) {
	table := sources.Table{Services: sources.ServicesOf(
		sources.Service{Namespace: "attacker", Name: "dns", Type: sources.ClusterIP, ClusterIPs: []netip.Addr{addr(1)}, ExternalIPs: []netip.Addr{addr(2)}},
		sources.Service{Namespace: "kube-system", Name: "dns", Type: sources.ClusterIP, ClusterIPs: []netip.Addr{addr(2)}},
	)}
	for i := range table.Services.Len() {
		table.Services.At(i).Ports = []sources.Port{{Protocol: sources.UDP, Port: 53, TargetPort: 53}}
		table.Services.At(i).Origin = sources.Origin{Source: "apiserver"}
	}
	merged, problems := sources.Merge(sources.HostFacts{}, table)
	if merged.Services.Len() != 2 || len(merged.Services.At(1).Withheld) > 0 || len(merged.Services.At(0).Withheld) != 1 {
		t.Errorf("%+v", merged.Services.Slice())
	}
	if want := "apiserver: attacker/dns: left out in part: 10.0.0.2:53/UDP is taken by kube-system/dns (apiserver)"; len(problems) != 1 || problems[0].Error() != want {
		t.Errorf("%v, want %s", problems, want)
	}
}

// A tenant does not get another service's cluster IP by listing it as an endpoint, nor a pod's address by listing it as
// an external IP.
func TestClusterIPOverEndpointOverExternalIP(t *testing.T) {
	service := func(namespace string, clusterIP, endpoint int) sources.Service {
		return sources.Service{
			Namespace: namespace, Name: "web", Type: sources.ClusterIP, ClusterIPs: []netip.Addr{addr(clusterIP)},
			Ports:     []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 80}},
			Endpoints: []sources.Endpoint{{Addr: addr(endpoint)}}, Origin: sources.Origin{Source: "apiserver"},
		}
	}
	attacker, victim := service("attacker", 1, 2), service("victim", 2, 8)
	attacker.ExternalIPs = []netip.Addr{addr(8)}
	merged, _ := sources.Merge(sources.HostFacts{Addrs: []netip.Addr{addr(9)}}, sources.Table{Services: sources.ServicesOf(attacker, victim)})
	if got := merged.Services.At(1).Withheld; len(got) > 0 {
		t.Errorf("the victim lost %v", got)
	}
	if got := merged.Services.At(0).Withheld; len(got) != 2 {
		t.Errorf("the attacker lost %v", got)
	}
}

// Of a service, only the VIP that is the default gateway is withheld, until there is another gateway.
func TestGatewayIsLeftOutAlone(t *testing.T) {
	table := sources.Table{Services: sources.ServicesOf(sources.Service{
		Namespace: "default", Name: "web", Type: sources.LoadBalancer, ClusterIPs: []netip.Addr{addr(1)},
		LoadBalancerIPs: []sources.VIP{{Addr: addr(9)}}, Ports: []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 80}},
	})}.Uncontested()
	var m sources.Merger
	merged, problems := split(m.Merge(sources.HostFacts{Gateways: []netip.Addr{addr(9)}}, nil, table))
	s := merged.Services.At(0)
	if len(problems) != 1 || !s.Withholds(vip(9)) || s.Withholds(vip(1)) {
		t.Errorf("%v: %+v", problems, s)
	}
	if merged, problems = split(m.Merge(sources.HostFacts{}, nil, table)); len(problems) > 0 || len(merged.Services.At(0).Withheld) > 0 {
		t.Errorf("with another gateway: %v: %+v", problems, *merged.Services.At(0))
	}
	own := sources.HostFacts{Gateways: []netip.Addr{addr(9)}, Addrs: []netip.Addr{addr(9)}}
	if problems := m.Merge(own, nil, table).Problems; len(problems) > 0 {
		t.Errorf("the host's own: %v", problems)
	}
}

// A VIP that is the default gateway is never bound, so it takes no endpoint from another service, whichever came first.
func TestGatewayTakesNoEndpoint(t *testing.T) {
	at := func(name string, line, vip, endpoint int) sources.Service {
		return sources.Service{
			Namespace: "default", Name: name, Type: sources.ClusterIP, ClusterIPs: []netip.Addr{addr(vip)},
			Ports:     []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 80}},
			Endpoints: []sources.Endpoint{{Addr: addr(endpoint)}}, Origin: sources.Origin{Source: "file", File: "a", Line: line},
		}
	}
	old, newcomer := at("old", 2, 5, 7), at("new", 1, 1, 5)
	host := sources.HostFacts{Addrs: []netip.Addr{addr(9)}, Gateways: []netip.Addr{addr(5)}}
	var m sources.Merger
	m.Merge(host, nil, together(old))
	for range 2 {
		_, problems := split(m.Merge(host, nil, together(newcomer, old), sources.Table{}))
		want := "a:2: old: left out: VIP 10.0.0.5 is this node's default gateway: bound here it would cut the node off"
		if len(problems) != 1 || problems[0].Error() != want {
			t.Errorf("%v, want %s", problems, want)
		}
	}
}

// A claim that the node cannot serve stays with who won it, whatever else changes.
func TestWithheldClaimStaysWithItsWinner(t *testing.T) {
	at := func(name string, line int) sources.Service {
		return sources.Service{
			Namespace: "default", Name: name, Type: sources.ClusterIP, ExternalIPs: []netip.Addr{addr(9)},
			Ports:  []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 80}},
			Origin: sources.Origin{Source: "file", File: "a", Line: line},
		}
	}
	old, newcomer := at("old", 2), at("new", 1)
	host := sources.HostFacts{Addrs: []netip.Addr{addr(9)}, Own: []sources.Listener{{
		Addr: addr(9), Port: 80, Protocol: sources.TCP, Program: "metrics",
	}}}
	var m sources.Merger
	m.Merge(host, nil, together(old))
	_, first := split(m.Merge(host, nil, together(newcomer, old)))
	_, second := split(m.Merge(host, nil, together(newcomer, old), sources.Table{}))
	if len(first) != 2 || !reflect.DeepEqual(first, second) {
		t.Errorf("%v, then %v", first, second)
	}
}

func written(t *testing.T, in sources.Incumbents) sources.Incumbents {
	t.Helper()
	read, err := sources.ParseIncumbents(in.String())
	if err != nil || read.String() != in.String() {
		t.Fatalf("%q: %v", in, err)
	}
	return read
}

// A firewall mark stays with its service across a restart.
func TestIncumbentOfAMark(t *testing.T) {
	marked := func(name string) sources.Service {
		s := sources.Service{Namespace: "default", Name: name, Type: sources.ClusterIP, Origin: sources.Origin{Source: "file", File: "/" + name}}
		s.SetMark(7)
		return s
	}
	var m sources.Merger
	m.Merge(sources.HostFacts{}, nil, sources.Table{Services: sources.ServicesOf(marked("b"))})
	both := sources.Table{Services: sources.ServicesOf(marked("a"), marked("b"))}
	serves := func(merged sources.Merged) (names []string) {
		for i := range merged.Services.Len() {
			if s := merged.Services.At(i); len(s.Withheld) == 0 {
				names = append(names, s.Name)
			}
		}
		return names
	}
	if got := serves(m.Merge(sources.HostFacts{}, nil, both)); !slices.Equal(got, []string{"b"}) {
		t.Fatalf("before: %q", got)
	}
	later := sources.Merger{Before: written(t, m.Incumbents())}
	if got := serves(later.Merge(sources.HostFacts{}, nil, both)); !slices.Equal(got, []string{"b"}) {
		t.Errorf("after: %q", got)
	}
}

// The record is in a directory that svcproxy's user can write, so it is not trusted.
func FuzzParseIncumbents(f *testing.F) {
	f.Add("from \"file\" \"/etc/svcproxy/a\\nb.toml\"\ndefault/web\nheld port 10.0.0.1:80/TCP by default/web\n")
	f.Add("from \"apiserver\" \"\"\nheld node 30080/UDP by a/b\nheld vip 10.0.0.1 by a/b\nheld endpoint fd00::1 by a/b\n")
	f.Add("from \"\" \"\"\nheld mark 7 by a/b\n")
	f.Add("from \"\" \"\"\nheld port [fd00::1%eth0]:80/TCP by a/b\n")
	f.Fuzz(func(t *testing.T, text string) {
		in, err := sources.ParseIncumbents(text)
		if err == nil && in.String() != text {
			t.Errorf("%q became %q", text, in)
		}
	})
}

// Revalidate returns what Validate does, whatever changed.
func TestRevalidateIsValidate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := tables("a").Draw(t, "before")
		refused := sources.Validate(before)
		before.Services = sources.ServicesOf(slices.DeleteFunc(before.Services.Slice(), func(s sources.Service) bool {
			return slices.ContainsFunc(refused, func(p sources.Problem) bool { return p.Service == s.FullName() })
		})...)
		now := other(t, before)
		delta, got := sources.Revalidate(before, now)
		if want := sources.Validate(now); !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
		if want := sources.Compare(before, now); !reflect.DeepEqual(delta, want) {
			t.Fatalf("got  %+v\nwant %+v", delta, want)
		}
	})
}

// Merge leaves out nothing of a table that Validate accepts.
func TestMergeOfValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := tables("a").Draw(t, "table")
		for i := range table.Services.Len() {
			if s := table.Services.At(i); rapid.Bool().Draw(t, "external") {
				s.ExternalIPs, s.ClusterIPs = s.ClusterIPs, nil
			}
		}
		refused := sources.Validate(table)
		table.Services = sources.ServicesOf(slices.DeleteFunc(table.Services.Slice(), func(s sources.Service) bool {
			return slices.ContainsFunc(refused, func(p sources.Problem) bool { return p.Service == s.FullName() })
		})...)
		if merged, problems := sources.Merge(sources.HostFacts{}, table); len(problems) > 0 || merged.Services.Len() != table.Services.Len() {
			t.Fatalf("of %+v left out %v", table, problems)
		}
	})
}

// split returns the parts of a merge that most tests need.
func split(m sources.Merged) (sources.Table, []sources.Problem) { return m.Table, m.Problems }

// other returns a table in which one service comes, goes or differs from one of the same name, or has other endpoints.
func other(t *rapid.T, table sources.Table) sources.Table {
	list := table.Services.Slice()
	switch rapid.IntRange(0, 3).Draw(t, "other") {
	case 0:
		if len(list) == 0 {
			return table
		}
		i := rapid.IntRange(0, len(list)-1).Draw(t, "gone")
		list = slices.Delete(list, i, i+1)
	case 1:
		more := tables("a").Draw(t, "more").Services
		if more.Len() == 0 {
			return table
		}
		s := *more.At(0)
		if len(list) > 0 {
			s.Origin.Source, s.Origin.File = list[0].Origin.Source, list[0].Origin.File
		}
		list = append(slices.DeleteFunc(list, func(o sources.Service) bool { return o.Name == s.Name }), s)
	default:
		return otherEndpoints(t, table)
	}
	now := sources.Table{Services: sources.ServicesOf(list...)}
	now.Sort()
	return now
}

// otherEndpoints returns a table with other endpoints in one service.
func otherEndpoints(t *rapid.T, table sources.Table) sources.Table {
	if table.Services.Len() == 0 {
		return table
	}
	table.Services = sources.ServicesOf(table.Services.Slice()...)
	s := table.Services.At(rapid.IntRange(0, table.Services.Len()-1).Draw(t, "service"))
	s.Endpoints = nil
	for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 0, 3, rapid.ID[int]).Draw(t, "endpoints") {
		s.Endpoints = append(s.Endpoints, sources.Endpoint{Addr: addr(i)})
	}
	return table
}

func BenchmarkMerger(b *testing.B) {
	table := many(1000)
	other := sources.Table{Services: sources.ServicesOf(table.Services.Slice()...)}
	other.Services.At(7).Endpoints = slices.Clone(other.Services.At(7).Endpoints[:1])
	var m sources.Merger
	m.Merge(sources.HostFacts{}, nil, table, sources.Table{})
	b.ReportAllocs()
	for b.Loop() {
		m.Merge(sources.HostFacts{}, nil, other, sources.Table{})
		m.Merge(sources.HostFacts{}, nil, table, sources.Table{})
	}
}

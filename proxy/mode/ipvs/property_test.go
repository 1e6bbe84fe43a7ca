package ipvs

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

// TestProperties checks what must be true of the state for any table.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, node, config := modetest.DrawTable(t), modetest.DrawNode(t), modetest.DrawConfig(t)
		s := stateOf(table, node, config)
		if again := stateOf(table, node, config); again.String() != s.String() {
			t.Fatalf("two answers:\n%s\n%s", s, again)
		}
		sorted := kernel.State{
			Sysctls: slices.Clone(s.Sysctls), Sets: slices.Clone(s.Sets), Entries: s.Entries,
			Chains: slices.Clone(s.Chains), Links: slices.Clone(s.Links), Virtuals: slices.Clone(s.Virtuals),
			Reals: s.Reals, Addrs: slices.Clone(s.Addrs), Policy: s.Policy,
		}
		sorted.Sort()
		if sorted.String() != s.String() {
			t.Fatalf("not sorted, or duplicates:\n%s", s)
		}
		read, err := kernel.ParseObserved(s.String())
		if err != nil || read.State.String() != s.String() {
			t.Fatalf("does not read back: %v\n%s", err, s)
		}
		checkOwnership(t, s, config)
		checkBound(t, s, config, node)
		checkReals(t, s, table, node)
		checkCut(t, s, frontend.List(table, node, config.Frontends))
		specs := slices.DeleteFunc(slices.Clone(kernel.SetSpecs), func(s kernel.SetSpec) bool { return s.Former })
		if n := len(s.Sets); n != len(config.Frontends.Families())*len(specs) {
			t.Fatalf("%d sets", n)
		}
	})
}

// checkOwnership checks that the ownership set has exactly the virtual servers, that
// none is on an unusable address, and that all entries are of existing sets.
func checkOwnership(t *rapid.T, s kernel.State, c mode.Config) {
	var owned []kernel.VirtualKey
	for e := range s.Entries.All() {
		if !slices.ContainsFunc(s.Sets, func(x kernel.Set) bool { return x.Name == e.Set }) {
			t.Fatalf("no set for %s", e)
		}
		if e.Set == c.Names.Set(kernel.IPv4, kernel.VirtualServer) || e.Set == c.Names.Set(kernel.IPv6, kernel.VirtualServer) {
			owned = append(owned, e.Key())
		}
	}
	slices.SortFunc(owned, kernel.VirtualKey.Compare)
	var made []kernel.VirtualKey
	for _, v := range s.Virtuals {
		made = append(made, v.Key)
		if a := v.Key.Addr; !a.IsGlobalUnicast() || a.Is6() && !c.Frontends.IPv6 {
			t.Fatalf("virtual server on %s", a)
		}
	}
	if !slices.Equal(owned, made) {
		t.Fatalf("owned %v\nmade %v", owned, made)
	}
}

// checkBound checks that every bound address has a virtual server, is in
// KUBE-IPVS-IPS and is not the node's own.
func checkBound(t *rapid.T, s kernel.State, c mode.Config, n kernel.Node) {
	ips := 0
	for e := range s.Entries.All() {
		if e.Set == c.Names.Set(kernel.IPv4, kernel.IPVSIPs) || e.Set == c.Names.Set(kernel.IPv6, kernel.IPVSIPs) {
			ips++
		}
	}
	if ips != len(s.Addrs) {
		t.Fatalf("%d addresses bound, %d in the set", len(s.Addrs), ips)
	}
	for _, a := range s.Addrs {
		if !slices.ContainsFunc(s.Virtuals, func(v kernel.Virtual) bool { return v.Key.Addr == a.Addr }) {
			t.Fatalf("%s bound and not served", a.Addr)
		}
		if slices.ContainsFunc(n.Addrs, func(x kernel.NodeAddr) bool { return x.Prefix.Addr() == a.Addr }) {
			t.Fatalf("%s is the node's own", a.Addr)
		}
	}
}

// checkReals checks that every real server has a virtual server of its own family
// and is a usable endpoint of the table.
func checkReals(t *rapid.T, s kernel.State, table sources.Table, n kernel.Node) {
	for _, r := range s.Reals.All() {
		if !slices.ContainsFunc(s.Virtuals, func(v kernel.Virtual) bool { return v.Key == r.Key.Virtual }) {
			t.Fatalf("no virtual server for %s", r)
		}
		if kernel.FamilyOf(r.Key.Addr.Addr()) != r.Key.Virtual.Family() {
			t.Fatalf("%s crosses families", r)
		}
		if !slices.ContainsFunc(table.Services.Slice(), func(svc sources.Service) bool {
			return slices.ContainsFunc(svc.Endpoints, func(e sources.Endpoint) bool {
				return e.Addr == r.Key.Addr.Addr() && !e.Cut && (e.Ready || svc.PublishNotReadyAddresses || e.Serving && e.Terminating)
			})
		}) {
			t.Fatalf("%s is no service's usable endpoint", r)
		}
	}
}

// checkCut checks that the policy names the real servers of every cut endpoint, in
// each of its service's virtual servers of its family.
func checkCut(t *rapid.T, s kernel.State, f *frontend.Frontends) {
	var want []kernel.RealKey
	for i := range f.Fronts {
		x := &f.Fronts[i]
		port := f.Service(x).Ports[x.Port]
		for _, e := range f.Service(x).Endpoints {
			for _, own := range e.Ports {
				if e.Cut && own.Name == port.Name && kernel.FamilyOf(e.Addr) == x.Key.Family() {
					want = append(want, kernel.RealKey{Virtual: x.Key, Addr: netip.AddrPortFrom(e.Addr, own.Port)})
				}
			}
		}
	}
	slices.SortFunc(want, kernel.RealKey.Compare)
	if want = slices.Compact(want); !slices.Equal(s.Policy.Cut, want) {
		t.Fatalf("cut\n%v\nwant\n%v", s.Policy.Cut, want)
	}
}

// Ten services and a thousand have the same rules. Only source ranges that exclude
// the node itself need one rule per VIP:port.
func TestRulesDoNotGrow(t *testing.T) {
	few, many := stateOf(modetest.Big(10, 3), kernel.Node{Name: "n1"}, modetest.Defaults()), stateOf(modetest.Big(1000, 3), kernel.Node{Name: "n1"}, modetest.Defaults())
	if !slices.Equal(few.Chains, many.Chains) {
		t.Error("chains differ between 10 and 1000 services")
	}
}

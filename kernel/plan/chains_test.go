package plan_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

// guarding is a state of mode iptables with VIPs.
func guarding(vips ...string) kernel.State {
	s := kernel.State{Links: []kernel.Link{{Name: "kube-ipvs0", Type: "dummy"}}}
	rules := "-p icmp -m icmp --icmp-type 8 -j RETURN"
	for _, v := range vips {
		s.Addrs = append(s.Addrs, kernel.Addr{Addr: netip.MustParseAddr(v), Link: "kube-ipvs0"})
		rules += fmt.Sprintf("\n-d %s/32 -j REJECT --reject-with icmp-port-unreachable", v)
	}
	s.Chains = []kernel.Chain{{Family: kernel.IPv4, Table: "filter", Name: "KUBE-VIP-FILTER", Rules: rules}}
	s.Sort()
	return s
}

// Whatever fails on the way, alone or with all that follows, no VIP is bound without its
// rule in KUBE-VIP-FILTER. When nothing fails any more, the kernel is as wanted.
func TestVIPsAreGuarded(t *testing.T) {
	broken := errors.New("broken")
	for first := range 6 {
		for _, last := range []int{first, 1000} {
			k := fake.New(kernel.DefaultNames, kernel.Node{}, kernel.State{})
			for _, want := range []kernel.State{guarding("10.96.0.1", "10.96.0.2"), guarding("10.96.0.2", "10.96.0.3"), guarding("10.96.0.4"), {}} {
				n := 0
				k.Fail = func(kernel.Op) error {
					if n++; first < n && n <= last+1 {
						return broken
					}
					return nil
				}
				for try := range 3 {
					have, err := k.Read(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if err := k.Apply(t.Context(), plan.Once(want, have)); err != nil && !errors.Is(err, broken) {
						t.Fatal(err)
					}
					guarded(t, k.State())
					if try == 0 {
						k.Fail = nil
					}
				}
				is := k.State()
				is.Timeouts = kernel.Timeouts{}
				if is.String() != want.String() {
					t.Fatalf("got\n%swant\n%s", is, want)
				}
			}
		}
	}
}

func guarded(t *testing.T, is kernel.State) {
	t.Helper()
	for _, a := range is.Addrs {
		if len(is.Chains) == 0 || !strings.Contains(is.Chains[0].Rules, "-d "+a.Addr.String()+"/32 -j REJECT") {
			t.Fatalf("%s is not guarded:\n%s", a.Addr, is)
		}
	}
}

// What Advance says of a chain that is changed twice is what the kernel has.
func TestGuardsAdvance(t *testing.T) {
	k := fake.New(kernel.DefaultNames, kernel.Node{}, guarding("10.96.0.1"))
	have, err := k.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := guarding("10.96.0.2")
	p := plan.Once(want, have)
	if err := k.Apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if now, ok := plan.Applied(have, want, p); !ok || now.State.String() != k.State().String() {
		t.Errorf("got %v\n%swant\n%s", ok, now.State, k.State())
	}
}

// While a source has not delivered, the rules of its services stay where they are: before
// the rule that must be the last. A chain that has all of them is not written.
func TestHeldRulesKeepTheirPlace(t *testing.T) {
	const a = "-d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-AAAAAAAAAAAAAAAA"
	const b = "-d 10.96.0.2/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-BBBBBBBBBBBBBBBB"
	const c = "-d 10.96.0.3/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-CCCCCCCCCCCCCCCC"
	const last = "-m addrtype --dst-type LOCAL -j KUBE-NODEPORTS"
	state := func(rules ...string) kernel.State {
		s := kernel.State{Chains: []kernel.Chain{{Family: kernel.IPv4, Table: "nat", Name: "KUBE-NODEPORTS"},
			{Family: kernel.IPv4, Table: "nat", Name: "KUBE-SERVICES", Rules: strings.Join(rules, "\n")}}}
		for _, x := range []string{"A", "B", "C"} {
			s.Chains = append(s.Chains, kernel.Chain{Family: kernel.IPv4, Table: "nat", Name: "KUBE-SVC-" + strings.Repeat(x, 16)})
		}
		return s
	}
	for _, row := range []struct{ want, have, becomes kernel.State }{
		{state(last), state(a, b, last), state(a, b, last)},
		{state(a, last), state(a, b, last), state(a, b, last)},
		{state(b, last), state(a, b, c, last), state(a, b, c, last)},
		{state(a, c, last), state(b, last), state(b, a, c, last)},
		{state(), state(a), state(a)},
	} {
		row.want.Policy.Hold = true
		k := fake.New(kernel.DefaultNames, kernel.Node{}, row.have)
		have, err := k.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		p := plan.Once(row.want, have)
		if p.Empty() != (row.becomes.Chains[1] == row.have.Chains[1]) {
			t.Errorf("%q over %q: plan\n%s", row.want.Chains[1].Rules, row.have.Chains[1].Rules, p)
		}
		if err := k.Apply(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if is := k.State().Chains[1].Rules; is != row.becomes.Chains[1].Rules {
			t.Errorf("%q over %q became %q, want %q", row.want.Chains[1].Rules, row.have.Chains[1].Rules, is, row.becomes.Chains[1].Rules)
		}
	}
}

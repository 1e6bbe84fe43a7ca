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
					if err := k.Apply(t.Context(), plan.Diff(want, have)); err != nil && !errors.Is(err, broken) {
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
	p := plan.Diff(want, have)
	if err := k.Apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if now, ok := plan.Applied(have, want, p); !ok || now.State.String() != k.State().String() {
		t.Errorf("got %v\n%swant\n%s", ok, now.State, k.State())
	}
}

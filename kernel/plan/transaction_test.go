package plan_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

// What one op that keeps failing prevents, and what it does not, where sets and chains are one transaction.
func TestFailureInTransaction(t *testing.T) {
	with := func(s kernel.State, more ...kernel.Sysctl) kernel.State {
		s.Sysctls = more
		return s
	}
	off, on := kernel.Sysctl{Name: "net.ipv4.ip_forward", Value: "0"}, kernel.Sysctl{Name: "net.ipv4.ip_forward", Value: "1"}
	two, three := frontend("10.2.0.1", "10.2.0.2"), frontend("10.2.0.1", "10.2.0.2", "10.2.0.3")
	two.Chains = append(two.Chains, three.Chains...) // another frontend has three endpoints
	two.Sort()
	const guarded = `create KUBE-FRONTENDS map:ip,port family inet maxelem 8
create KUBE-IPVS-IPS hash:ip family inet maxelem 8
add KUBE-FRONTENDS 10.96.0.1,tcp:80 : goto KUBE-LB-REFUSE
add KUBE-FRONTENDS 10.96.0.2,tcp:80 : goto KUBE-LB-DROP
add KUBE-IPVS-IPS 10.96.0.1
#: iptables
*nat
:KUBE-LB-DROP - [0:0]
:KUBE-LB-REFUSE - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-VIP-FILTER - [0:0]
-A KUBE-LB-DROP -j DROP
-A KUBE-LB-REFUSE -j REJECT
-A KUBE-SERVICES -j VMAP --map KUBE-FRONTENDS dst,dst
-A KUBE-SERVICES -m set --match-set KUBE-IPVS-IPS dst -g KUBE-VIP-FILTER
-A KUBE-VIP-FILTER -j REJECT
-A PREROUTING -j KUBE-SERVICES
COMMIT
link add kube-ipvs0 type dummy
addr add 10.96.0.1/32 dev kube-ipvs0
`
	all := observed(t, guarded).State
	unguarded := observed(t, strings.Replace(guarded, "-A KUBE-SERVICES -m set --match-set KUBE-IPVS-IPS dst -g KUBE-VIP-FILTER\n", "", 1)).State
	unguarded.Addrs = nil
	const bound = "addr add 10.96.0.1"
	for _, c := range []struct {
		name        string
		want, have  kernel.State
		fails       string
		has, hasNot []string
	}{
		{"slots stay while their frontend does", with(two, on), with(three, off),
			"~ net.ipv4.ip_forward", []string{"goto KUBE-LB-3", "slot:2 ", ":KUBE-LB-3 "}, nil},
		{"a chain that is refused leaves the others", all, kernel.State{}, "+ chain ipv4 nat KUBE-LB-DROP",
			[]string{"10.96.0.1,tcp:80 : goto KUBE-LB-REFUSE", bound, "-A PREROUTING -j KUBE-SERVICES"}, []string{"add KUBE-FRONTENDS 10.96.0.2", ":KUBE-LB-DROP "}},
		{"so does an entry", all, kernel.State{}, "+ add KUBE-FRONTENDS 10.96.0.2",
			[]string{"10.96.0.1,tcp:80 : goto KUBE-LB-REFUSE", bound, ":KUBE-LB-DROP "}, []string{"add KUBE-FRONTENDS 10.96.0.2"}},
		{"a set takes its chains with it", all, kernel.State{}, "+ create KUBE-IPVS-IPS",
			[]string{":KUBE-VIP-FILTER ", "create KUBE-FRONTENDS"}, []string{bound, "-A PREROUTING"}},
		{"nothing is bound without the guard", all, kernel.State{}, "+ chain ipv4 nat KUBE-VIP-FILTER", []string{":KUBE-LB-DROP "}, []string{bound}},
		{"nor if nothing leads to it", all, kernel.State{}, "+ chain ipv4 nat KUBE-SERVICES", []string{":KUBE-VIP-FILTER "}, []string{bound}},
		{"nor if no packet gets there", all, kernel.State{}, "+ chain ipv4 nat PREROUTING", []string{"-g KUBE-VIP-FILTER"}, []string{bound}},
		{"nor after a change of modes", all, unguarded, "~ chain ipv4 nat KUBE-SERVICES", []string{":KUBE-VIP-FILTER "}, []string{bound}},
		{"what is in use stays, and no more", kernel.State{}, all, "- chain ipv4 nat KUBE-SERVICES",
			[]string{"create KUBE-FRONTENDS", "create KUBE-IPVS-IPS", ":KUBE-VIP-FILTER "}, []string{bound, "KUBE-LB-", "-A PREROUTING"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := fake.New(kernel.DefaultNames, kernel.Node{}, c.have)
			k.Atomic = true
			k.Fail = func(o kernel.Op) error {
				if strings.HasPrefix(o.String(), c.fails) {
					return syscall.EIO
				}
				return nil
			}
			for range 2 {
				o, err := k.Read(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if err := k.Apply(t.Context(), plan.Once(c.want, o)); err == nil {
					t.Error("nothing failed")
				}
			}
			state := k.State().String()
			missing := func(s string) bool { return !strings.Contains(state, s) }
			if slices.ContainsFunc(c.has, missing) || !slices.Equal(slices.DeleteFunc(c.hasNot, missing), nil) {
				t.Errorf("want %q, not %q:\n%s", c.has, c.hasNot, state)
			}
		})
	}
}

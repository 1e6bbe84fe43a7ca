package proxy_test

import (
	"context"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
	"github.com/svcproxy/svcproxy/proxy"
)

// restless is a kernel in which another program puts back what is removed.
type restless struct{ *fake.Kernel }

func (restless) Apply(context.Context, kernel.Plan) error { return nil }

func TestCleanEnds(t *testing.T) {
	leftover := kernel.State{Links: []kernel.Link{{Name: names.Device, Type: "dummy"}}}
	k := fake.New(names, kernel.Node{}, leftover)
	clean := func(k proxy.Kernel, dry bool) error {
		return proxy.Clean(t.Context(), k, proxy.Cleaning{Dry: dry}, func(kernel.Plan) error { return nil })
	}
	if err := clean(restless{k}, false); err == nil || !strings.Contains(err.Error(), "come back") {
		t.Errorf("cleanup of what comes back: %v", err)
	}
	k.Fail = func(kernel.Op) error { return syscall.EBUSY }
	if err := clean(k, false); err == nil || !strings.Contains(err.Error(), "busy") {
		t.Errorf("cleanup of what cannot be removed: %v", err)
	}
	k.Fail = nil
	if err := clean(k, true); err != nil || len(k.State().Links) != 1 {
		t.Errorf("dry run: %v, links %v", err, k.State().Links)
	}
	if err := clean(k, false); err != nil || len(k.State().Links) != 0 {
		t.Errorf("cleanup: %v, links %v", err, k.State().Links)
	}
}

// Rules that kube-proxy's iptables mode wrote after svcproxy stay until somebody asks for their removal.
func TestCleanLeavesRules(t *testing.T) {
	have, err := kernel.ParseObserved(`#: iptables
*filter
:KUBE-VIP-FILTER - [0:0]
-A INPUT -j KUBE-VIP-FILTER
COMMIT
*nat
:KUBE-SEP-SXIVWICOYRO3J4NJ - [0:0]
:KUBE-SERVICES - [0:0]
-A PREROUTING -j KUBE-SERVICES
COMMIT
`)
	if err != nil {
		t.Fatal(err)
	}
	for leftovers, want := range map[bool]int{false: 3, true: 0} {
		var planned kernel.Plan
		k := fake.New(names, kernel.Node{}, have.State)
		err := proxy.Clean(t.Context(), k, proxy.Cleaning{Leftovers: leftovers}, func(p kernel.Plan) error { planned = p; return nil })
		left := slices.DeleteFunc(k.State().Chains, func(c kernel.Chain) bool { return c.BuiltIn() && c.Rules == "" })
		if err != nil || len(left) != want || leftovers == strings.Contains(planned.String(), "3 chains of rules stay") {
			t.Errorf("leftovers %v: %v, left %v\n%s", leftovers, err, left, planned)
		}
	}
}

// Virtual servers that another program has by now stay, with their real servers; the sets that named them do not.
func TestCleanKeeps(t *testing.T) {
	have, err := kernel.ParseObserved(`create KUBE-IPVS-IPS hash:ip family inet maxelem 1024
add KUBE-IPVS-IPS 192.0.2.80
create KUBE-VIRTUAL-SERVER hash:ip,port family inet maxelem 1024
add KUBE-VIRTUAL-SERVER 192.0.2.80,tcp:80
add KUBE-VIRTUAL-SERVER 192.0.2.81,tcp:80
-A -t 192.0.2.80:80 -s rr
-a -t 192.0.2.80:80 -r 10.2.1.10:80 -m -w 1
-A -t 192.0.2.81:80 -s rr
-a -t 192.0.2.81:80 -r 10.2.1.10:80 -m -w 1
`)
	if err != nil {
		t.Fatal(err)
	}
	k := fake.New(names, kernel.Node{}, have.State)
	var planned kernel.Plan
	keys := []kernel.VirtualKey{have.Virtuals[0].Key}
	kept := []proxy.Kept{{By: "keepalived has them", Keys: keys}, {By: "another one has them, too", Keys: keys}}
	err = proxy.Clean(t.Context(), k, proxy.Cleaning{Kept: kept}, func(p kernel.Plan) error { planned = p; return nil })
	s := k.State()
	if err != nil || len(s.Virtuals) != 1 || s.Virtuals[0] != have.Virtuals[0] || s.Reals.Len() != 1 || len(s.Sets) != 0 {
		t.Errorf("%v: left\n%s", err, s)
	}
	if len(planned.Ops) == 0 || planned.Ops[0].String() != "- del KUBE-IPVS-IPS 192.0.2.80" || !strings.Contains(planned.String(), "1 virtual server stays: keepalived has them") ||
		strings.Contains(planned.String(), "another one") {
		t.Errorf("%s", planned)
	}
}

package ipset

import (
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

// Every change of a set by hand is found if its entries are read. If only its header is read, a
// lost or an additional entry is found.
func TestVerify(t *testing.T) {
	s := open(t, nil)
	set := benchSet()
	apply(t, s, append([]kernel.Op{{Verb: kernel.Add, Object: set}}, entries(set.Name, 3000)...))
	apply(t, s, plan(t, `
		+ create KUBE-6-CLUSTER-IP hash:ip,port family inet6 maxelem 64
		+ add KUBE-6-CLUSTER-IP fd00::1,tcp:80
		+ add KUBE-6-CLUSTER-IP fd00::2,udp:53
		+ create KUBE-LOAD-BALANCER-SOURCE-CIDR hash:ip,port,net family inet maxelem 64
		+ add KUBE-LOAD-BALANCER-SOURCE-CIDR 192.0.2.1,tcp:80,10.0.0.0/8
		+ create KUBE-NODE-PORT-TCP bitmap:port range 0-65535
		+ add KUBE-NODE-PORT-TCP 30080
		+ create KUBE-IPVS-IPS hash:ip family inet maxelem 64
	`))
	var known kernel.State
	var err error
	if known.Sets, known.Entries, err = s.Read(kernel.DefaultNames); err != nil {
		t.Fatal(err)
	}
	unchanged := func(all bool) bool {
		t.Helper()
		same, err := s.Verify(kernel.DefaultNames, &known, func(string) bool { return all })
		if err != nil {
			t.Fatal(err)
		}
		return same
	}
	if !unchanged(true) || !unchanged(false) {
		t.Fatal("nothing has changed")
	}
	for _, c := range []struct {
		do, undo []string
		seen     bool // in the header
	}{
		{[]string{"del KUBE-6-CLUSTER-IP fd00::1,80"}, []string{"add KUBE-6-CLUSTER-IP fd00::1,80"}, true},
		{[]string{"add KUBE-IPVS-IPS 10.0.0.1"}, []string{"del KUBE-IPVS-IPS 10.0.0.1"}, true},
		{[]string{"create KUBE-TMP-7 hash:ip"}, []string{"destroy KUBE-TMP-7"}, true},
		{[]string{"del KUBE-6-CLUSTER-IP fd00::1,80", "add KUBE-6-CLUSTER-IP fd00::1,udp:80"},
			[]string{"del KUBE-6-CLUSTER-IP fd00::1,udp:80", "add KUBE-6-CLUSTER-IP fd00::1,80"}, false},
		{[]string{"del KUBE-LOAD-BALANCER-SOURCE-CIDR 192.0.2.1,80,10.0.0.0/8", "add KUBE-LOAD-BALANCER-SOURCE-CIDR 192.0.2.1,80,10.0.0.0/9"},
			[]string{"del KUBE-LOAD-BALANCER-SOURCE-CIDR 192.0.2.1,80,10.0.0.0/9", "add KUBE-LOAD-BALANCER-SOURCE-CIDR 192.0.2.1,80,10.0.0.0/8"}, false},
		{[]string{"del KUBE-NODE-PORT-TCP 30080", "add KUBE-NODE-PORT-TCP 30081"},
			[]string{"del KUBE-NODE-PORT-TCP 30081", "add KUBE-NODE-PORT-TCP 30080"}, false},
	} {
		run(t, c.do)
		if unchanged(true) || unchanged(false) == c.seen {
			t.Errorf("%q: entries are as known %v, headers %v", c.do, unchanged(true), unchanged(false))
		}
		run(t, c.undo)
		if !unchanged(true) {
			t.Errorf("%q: not as known after it was undone", c.do)
		}
	}
	if n := testing.AllocsPerRun(5, func() { unchanged(true) }); n > 100 {
		t.Errorf("%v allocations to look at 3,000 entries, want them not to grow with these", n)
	}
}

func run(t *testing.T, commands []string) {
	t.Helper()
	for _, c := range commands {
		kerneltest.Run(t, "ipset", strings.Fields(c)...)
	}
}

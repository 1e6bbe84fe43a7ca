package lab

import (
	"slices"
	"testing"
)

func TestNativeTable(t *testing.T) {
	sets, rules := nativeTable(`table ip svcproxy {
	set KUBE-CLUSTER-IP {
		type ipv4_addr . inet_proto . inet_service
		elements = { 10.0.0.2 . udp . 53,
			     10.0.0.1 . tcp . 80 }
	}

	set KUBE-N {
		type inet_service
		elements = { 80, 81 }
	}

	chain nat-PREROUTING {
		type nat hook prerouting priority dstnat; policy accept;
	}

	chain filter-KUBE-FORWARD {
		accept
	}
}
`, "iptables-save")
	if want := []string{"create KUBE-CLUSTER-IP", "add KUBE-CLUSTER-IP 10.0.0.2,udp:53", "add KUBE-CLUSTER-IP 10.0.0.1,tcp:80",
		"create KUBE-N", "add KUBE-N 80", "add KUBE-N 81"}; !slices.Equal(sets, want) {
		t.Errorf("%q", sets)
	}
	if want := []string{"iptables-save :KUBE-FORWARD in filter-KUBE-FORWARD", "iptables-save -A filter-KUBE-FORWARD accept",
		"iptables-save :PREROUTING in nat-PREROUTING",
		"iptables-save -A nat-PREROUTING type nat hook prerouting priority dstnat; policy accept;"}; !slices.Equal(rules, want) {
		t.Errorf("%q", rules)
	}
}

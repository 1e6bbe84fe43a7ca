package kernel_test

import (
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

func TestForeignAddrs(t *testing.T) {
	const bound = "addr add 10.96.0.1/32 dev edge0\naddr add fd00::1/128 dev edge0\n"
	for _, c := range []struct {
		what, device, have string
		want               int
	}{
		{"none is there", "edge0", "", 0},
		{"empty", "edge0", "link add edge0 type dummy\n", 0},
		{"another program's", "edge0", "link add edge0 type dummy\n" + bound, 2},
		{"another program's beside our sets", "edge0", "create KUBE-IPVS-IPS hash:ip family inet maxelem 65536\nadd KUBE-IPVS-IPS 10.96.0.1\n" + bound, 1},
		{"ours of a lost state directory", "edge0", "create KUBE-IPVS-IPS hash:ip family inet maxelem 65536\nadd KUBE-IPVS-IPS 10.96.0.1\naddr add 10.96.0.1/32 dev edge0\n", 0},
		{"ours of mode iptables", "edge0", "addr add 10.96.0.1/32 dev edge0\n*filter\n:KUBE-VIP-FILTER - [0:0]\n-A KUBE-VIP-FILTER -d 10.96.0.1/32 -j REJECT --reject-with icmp-port-unreachable\nCOMMIT\n", 0},
		{"another program's in mode iptables", "edge0", "addr add 10.96.0.1/32 dev edge0\n*filter\n:KUBE-VIP-FILTER - [0:0]\n-A KUBE-VIP-FILTER -d 10.96.0.10/32 -j REJECT --reject-with icmp-port-unreachable\nCOMMIT\n", 1},
		{"kube-proxy's", "kube-ipvs0", "create KUBE-CLUSTER-IP hash:ip,port family inet maxelem 65536\naddr add 10.96.0.1/32 dev kube-ipvs0\n", 0},
		{"kube-proxy's name alone", "kube-ipvs0", "addr add 10.96.0.1/32 dev kube-ipvs0\n", 1},
	} {
		o, err := kernel.ParseObserved(c.have)
		if err != nil {
			t.Fatal(err)
		}
		o.Names = kernel.Names{Prefix: "KUBE", Device: c.device}
		if got := o.ForeignAddrs(); len(got) != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

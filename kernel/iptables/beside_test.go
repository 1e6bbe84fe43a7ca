package iptables

import (
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

func TestLegacyBesideHasForward(t *testing.T) {
	const text = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n-A FORWARD -p tcp -m tcp --dport 22 -j ACCEPT\nCOMMIT\n"
	found, err := allBarriers(text, kernel.IPv4, Tool{Name: "iptables-legacy"}, kernel.Names{})
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	if b := found[0]; b.Hook != "forward" || b.Verdict != "drop" || b.Name != "iptables-legacy filter FORWARD" {
		t.Errorf("%+v", b)
	}
}

package kernel

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestSavedCheck(t *testing.T) {
	names := []string{"net.ipv4.ip_forward"}
	for _, c := range []struct {
		saved Saved
		wrong string // "" is right
	}{
		{Saved{"net.ipv4.ip_forward", "0", "1"}, ""},
		{Saved{"ipvs.tcpTimeout", "900", "1800"}, ""},
		{Saved{ProxyNDP("eth0.100"), "0", "1"}, ""},
		{Saved{"kernel.core_pattern", "|/tmp/x", "core"}, "not a parameter that svcproxy sets"},
		{Saved{"kernel.core_pattern", "0", "1"}, "not a parameter that svcproxy sets"},
		{Saved{"net.ipv4.ip_forward.", "0", "1"}, "not a parameter that svcproxy sets"},
		{Saved{"net.ipv6.conf.a.b.proxy_ndp", "0", "1"}, "not a parameter that svcproxy sets"},
		{Saved{"net.ipv6.conf.//.proxy_ndp", "0", "1"}, "not an interface's name"},
		{Saved{"net.ipv6.conf..proxy_ndp", "0", "1"}, "not an interface's name"},
		{Saved{"net.ipv4.ip_forward", "|/tmp/x", "1"}, "not a number"},
		{Saved{"net.ipv4.ip_forward", "0", ""}, "not a number"},
		{Saved{"net.ipv4.ip_forward", "2147483648", "1"}, "not a number"},
		{Saved{"net.ipv4.ip_forward", "00", "1"}, "not a number"},
		{Saved{"net.ipv4.ip_forward", "-1", "1"}, "not a number"},
	} {
		err := c.saved.Check(names)
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%v: %v, want %q", c.saved, err, c.wrong)
		}
	}
}

func TestNamesCheck(t *testing.T) {
	for _, good := range []Names{DefaultNames, {"EDGE-1", "edge0.1"}} {
		if err := good.Check(); err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
	for _, bad := range []Names{{"", "x"}, {"kube", "x"}, {"KUBEKUBE", "x"}, {"-K", "x"}, {"KUBE-6", "x"}, {"KUBE", ""}, {"KUBE", ".."}, {"KUBE", "-x"}, {"KUBE", "a/b"}, {"KUBE", strings.Repeat("x", 16)}} {
		if bad.Check() == nil {
			t.Errorf("%v is good", bad)
		}
	}
}

func TestUnserved(t *testing.T) {
	addr := netip.MustParseAddr
	o := Observed{Names: DefaultNames}
	o.Virtuals = []Virtual{{Key: VirtualAt(netip.MustParseAddrPort("192.0.2.77:30080"), 0)}}
	o.Entries = EntriesOf([]Entry{{Set: "KUBE-CLUSTER-IP", Addr: addr("10.96.0.1")}, {Set: "KUBE-LOAD-BALANCER", Addr: addr("10.96.0.2")}, {Set: "KUBE-VIRTUAL-SERVER", Addr: addr("192.0.2.77")}})
	o.Addrs = []Addr{{Addr: addr("10.96.0.1")}, {Addr: addr("10.96.0.2")}}
	if got := o.Unserved(); got != nil {
		t.Error(got)
	}
	o.Addrs = append(o.Addrs, Addr{Addr: addr("10.96.0.3")})
	o.Chains = []Chain{{Family: IPv4, Table: "filter", Name: "KUBE-VIP-FILTER", Rules: "-p icmp -j RETURN\n-d 10.96.0.3/32 -j REJECT"}}
	if got := o.Unserved(); got != nil {
		t.Errorf("with the rules of mode iptables: %v", got)
	}
	o.Addrs = append(o.Addrs, Addr{Addr: addr("192.0.2.77")})
	if got := o.Unserved(); !slices.Equal(got, []netip.Addr{addr("192.0.2.77")}) {
		t.Error(got)
	}
}

// The map of frontends has the node's addresses for node ports, so it proves nothing. The set of guarded VIPs does.
func TestUnservedInModeNFTables(t *testing.T) {
	addr := netip.MustParseAddr
	o := Observed{Names: DefaultNames}
	o.Entries = EntriesOf([]Entry{{Set: "KUBE-FRONTENDS", Addr: addr("10.96.0.1")}, {Set: "KUBE-FRONTENDS", Addr: addr("192.0.2.77")},
		{Set: "KUBE-IPVS-IPS", Addr: addr("10.96.0.1")}})
	o.Addrs = []Addr{{Addr: addr("10.96.0.1")}, {Addr: addr("192.0.2.77")}}
	o.Sets = []Set{{Name: "KUBE-FRONTENDS"}}
	if got := o.Unserved(); !slices.Equal(got, []netip.Addr{addr("192.0.2.77")}) {
		t.Error(got)
	}
}

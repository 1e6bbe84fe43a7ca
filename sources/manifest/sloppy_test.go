package manifest

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/svcproxy/svcproxy/sources"
)

func TestLeadingZeros(t *testing.T) {
	for text, want := range map[string]string{
		"10.96.000.18": "10.96.0.18", "010.011.012.013": "10.11.12.13", "000.000.000.000": "0.0.0.0", "10.0.0.1": "10.0.0.1",
		"fd00:00010::01": "fd00:10::1", "::ffff:010.0.0.1": "10.0.0.1", "10.0.0.256": "", "10.0.0.0x1": "", "": "", "010": "",
	} {
		a, clean, err := parseAddr(text)
		if (err == nil) != (want != "") || err == nil && (a.String() != want || clean != "" && clean != want) {
			t.Errorf("%q: %v, %q, %v", text, a, clean, err)
		}
	}
	for text, want := range map[string]string{"010.9.0.0/16": "10.9.0.0/16", "10.9.1.1/016": "10.9.0.0/16", "10.9.0.0": ""} {
		if p, _, err := parsePrefix(text); (err == nil) != (want != "") || err == nil && p.String() != want {
			t.Errorf("%q: %v, %v", text, p, err)
		}
	}
}

// A service with leading zeros everywhere is served as kube-proxy serves it, and a doubt names each value.
func TestLegacyObject(t *testing.T) {
	in := Service{Metadata: Metadata{Name: "web"}, Spec: ServiceSpec{
		Type: "LoadBalancer", ClusterIP: "10.96.000.18", ExternalIPs: []string{"198.51.100.066"},
		LoadBalancerSourceRanges: []string{"010.9.0.0/16"}, Ports: []ServicePort{{Port: 80}},
	}}
	in.Status.LoadBalancer.Ingress = []Ingress{{IP: "198.51.100.007"}}
	part := &EndpointSlice{
		AddressType: "IPv4", Ports: []EndpointPort{{Port: 8080}},
		Endpoints: []Endpoint{{Addresses: []string{"10.2.01.1"}}},
	}
	s, problems, ok := Convert(in, []*EndpointSlice{part}, "")
	if !ok || len(problems) > 0 || s.ClusterIPs[0] != netip.MustParseAddr("10.96.0.18") ||
		s.ExternalIPs[0] != netip.MustParseAddr("198.51.100.66") || s.SourceRanges[0] != netip.MustParsePrefix("10.9.0.0/16") ||
		s.LoadBalancerIPs[0].Addr != netip.MustParseAddr("198.51.100.7") || s.Endpoints[0].Addr != netip.MustParseAddr("10.2.1.1") {
		t.Errorf("%+v, %v", s, problems)
	}
	doubts := sources.Doubts(sources.HostFacts{}, sources.Table{Services: sources.ServicesOf(s)})
	if len(s.Legacy) != 5 || len(doubts) < 5 || !slices.ContainsFunc(doubts, func(p sources.Problem) bool {
		return p.Message == `externalIP "198.51.100.066" is read as 198.51.100.66, as kube-proxy does: write it so, `+
			"leading zeros are octal to other programs"
	}) {
		t.Errorf("%v", doubts)
	}
}

package sources_test

import (
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/sources"
)

// A mark with the bit that masquerades on this node is left out there, and check says so. The bit may be another one than
// Kubernetes'.
func TestMarkWithTheMasqueradeBit(t *testing.T) {
	marked := func(name string, mark uint32) sources.Service {
		s := sources.Service{
			Namespace: "default", Name: name, Type: sources.ClusterIP,
			Endpoints: []sources.Endpoint{{Addr: addr(8), Weight: 1, Ports: []sources.EndpointPort{{Protocol: sources.FWMark}}}},
			Origin:    sources.Origin{Source: "file", File: "a.toml", Line: 1},
		}
		s.SetMark(mark)
		return s
	}
	table := sources.Table{Services: sources.ServicesOf(marked("bad", 12), marked("good", 7))}
	for bit, want := range map[uint32]int{0: 0, 8: 1, 1 << 14: 0} {
		host := sources.HostFacts{MasqueradeMark: bit}
		doubts := sources.Doubts(host, table)
		merged, left := sources.Merge(host, table)
		if len(doubts) != want || len(left) != want {
			t.Fatalf("bit %#x: doubts %v, left out %v", bit, doubts, left)
		}
		for _, p := range append(doubts, left...) {
			if p.Service != "default/bad" || !strings.Contains(p.Message, "its bit 0x8 masquerades on this node, as iptables.masqueradeBit says") {
				t.Errorf("bit %#x: %v", bit, p)
			}
		}
		if withheld := len(merged.Services.At(0).Withheld); withheld != want || len(merged.Services.At(1).Withheld) != 0 {
			t.Errorf("bit %#x: withheld %d of the first", bit, withheld)
		}
	}
}

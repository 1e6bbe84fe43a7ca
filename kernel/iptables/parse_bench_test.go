package iptables

import (
	"slices"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

// BenchmarkParseSave reads what iptables-save prints of 5,000 services with 5 endpoints in mode
// iptables.
func BenchmarkParseSave(b *testing.B) {
	s := modeState(modetest.Big(5000, 5), kernel.Node{Name: "n1"}, modetest.Defaults())
	s.Chains = slices.DeleteFunc(s.Chains, func(c kernel.Chain) bool { return c.Family != kernel.IPv4 || c.Table != "nat" })
	text := kernel.State{Chains: s.Chains}.String()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parseSave(text, kernel.IPv4, kernel.DefaultNames); err != nil {
			b.Fatal(err)
		}
	}
}

package conntrack

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// The benchmarks delete flows of VIPs that have none among 50,000 entries, so the table stays the
// same. They compare the search. Wall time on a shared machine says little: run in the guest with
// -icount.
const benchEntries = 50_000

func BenchmarkFiltered(b *testing.B) {
	for _, n := range []int{1, mostFiltered} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { look(b, n, false) })
	}
}

func BenchmarkFullDump(b *testing.B) { look(b, 1, true) }

// What it costs to look for clients that wait, of which there are none, and then at all connections.
func BenchmarkTCP(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		c := open(b, new(nl.Dialer))
		fill(b, n, kernel.TCP, netip.MustParseAddrPort("10.96.0.10:80"))
		for _, waiting := range []bool{true, false} {
			b.Run(fmt.Sprintf("%d waiting=%t", n, waiting), func(b *testing.B) {
				for b.Loop() {
					found := 0
					err := c.TCP(kernel.IPv4, waiting, func(kernel.Asked) { found++ })
					if err != nil || waiting != (found == 0) {
						b.Fatal(found, err)
					}
				}
			})
		}
	}
}

func look(b *testing.B, virtuals int, everything bool) {
	c := open(b, nil)
	fill(b, benchEntries, kernel.UDP, netip.MustParseAddrPort("10.96.0.10:53"))
	c.ignoresFilter = everything
	var flows []string
	for i := range virtuals {
		flows = append(flows, fmt.Sprintf("udp 10.96.1.%d:53 10.2.0.1:5353", i))
	}
	ops := remove(flows...)
	before := c.Stats()
	for b.Loop() {
		apply(b, c, ops)
	}
	after := c.Stats()
	b.ReportMetric(float64(after.Sends-before.Sends+after.Receives-before.Receives)/float64(b.N), "syscalls/op")
}

package ipvs

import (
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

func BenchmarkState(b *testing.B) {
	for name, size := range map[string][2]int{"5000x5": {5000, 5}, "1000x10": {1000, 10}} {
		b.Run(name, func(b *testing.B) {
			t := modetest.Big(size[0], size[1])
			b.ReportAllocs()
			for b.Loop() {
				stateOf(t, kernel.Node{Name: "n1"}, modetest.Defaults())
			}
		})
	}
}

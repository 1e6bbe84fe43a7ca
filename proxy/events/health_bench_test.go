package events

import (
	"testing"

	"github.com/svcproxy/svcproxy/proxy/health"
)

// BenchmarkServicesOf is what it costs to name the service of a target of 25,000: the first time after a change of the
// table, and after that.
func BenchmarkServicesOf(b *testing.B) {
	f := follow(5000, 5)
	e := health.Event{Key: f.targets[17].Key}
	b.Run("new table", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f.users = users{}
			f.servicesOf(e)
		}
	})
	b.Run("same table", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f.servicesOf(e)
		}
	})
}

package ipvs

import (
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

// TestQuickCheck finds a flush at any size, in one system call if there are many IPv4 virtual servers.
// If there are few, it finds a change of a single real server.
func TestQuickCheck(t *testing.T) {
	for _, c := range []struct {
		name     string
		size     int
		families []kernel.Family
		calls    uint64
	}{
		{"few", 20, []kernel.Family{kernel.IPv4}, 2},
		{"many", 5000, []kernel.Family{kernel.IPv4}, 1},
		{"both", 20, []kernel.Family{kernel.IPv4, kernel.IPv6}, 2},
		{"IPv6", 20, []kernel.Family{kernel.IPv6}, 2}, // the mark is of IPv4
	} {
		t.Run(c.name, func(t *testing.T) {
			table := open(t)
			for _, f := range c.families {
				apply(t, table, bigTable(c.size, 2, f)...)
			}
			kerneltest.Run(t, "ipvsadm", "-A", "-f", "7")
			r := read(t, table)
			known := kernel.State{Virtuals: r.Virtuals, Reals: kernel.RealsOf(r.Reals)}
			look := func() bool {
				t.Helper()
				same, err := table.QuickCheck(&known)
				if err != nil {
					t.Fatal(err)
				}
				return same
			}
			look()
			before, began := table.Stats(), time.Now()
			if !look() {
				t.Fatal("nothing has changed")
			}
			took, after := time.Since(began), table.Stats()
			if n := after.Getsockopts - before.Getsockopts; n != c.calls {
				t.Errorf("%d calls of getsockopt, want %d", n, c.calls)
			}
			if n := after.Messages - before.Messages; n != 0 {
				t.Errorf("%d messages that may change something", n)
			}
			t.Logf("%v for %d virtual servers", took, len(r.Virtuals))
			if c.size <= fewServices && c.families[0] == kernel.IPv4 {
				real := r.Reals[0]
				kerneltest.Run(t, "ipvsadm", "-d", "-t", real.Key.Virtual.AddrPort().String(), "-r", real.Key.Addr.String())
				if look() {
					t.Error("a real server that is gone was not seen")
				}
			}
			kerneltest.Run(t, "ipvsadm", "-C")
			if look() {
				t.Error("a flush was not seen")
			}
		})
	}
}
